"""How fast a long transcript is imported, in how much memory, beside the agent's own reader of the same file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import transcripts
from tests.bench.report import Report
from tests.bench.sizes import MB, Sizes

AT_LEAST = {"sqlite": 30.0, "postgresql": 20.0}
MOST_BYTES = 120 * MB
# It holds everything it reads, six times over.
MOST_FOR_ITS_OWN_READER = 500 * MB
OWN_READER = """
import json, resource, sys, time
from claude_agent_sdk import get_session_messages
begun, cpu = time.perf_counter(), time.process_time()
count = len(get_session_messages(sys.argv[1]))
print(json.dumps({"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu, "messages": count,
                  "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""
WRITERS: dict[str, Callable[..., tuple[str, Path]]] = {
    "codex": transcripts.write_codex,
    "claude": transcripts.write_claude,
}


def run(sizes: Sizes, vendor: str) -> Report:
    """Import one transcript of each format."""
    report = Report("import", f"Import of a transcript of {sizes.transcript_bytes / MB:,.0f} MB, {vendor}")
    folder = Path(os.environ["FORKHOST_BENCH"])
    for provider, write in WRITERS.items():
        home = folder / f"{provider}-home"
        session_id, path = write(home, sizes.transcript_bytes)
        size = path.stat().st_size
        found = _in_a_process([sys.executable, "-m", "tests.bench.import_one", provider, str(home)])
        speed = found["bytes"] / MB / found["wall"]
        whole = found["bytes"] == size and found["states"] == ["imported"]
        report.add(
            f"{provider}: forkhost's import",
            promise=f">= {AT_LEAST[vendor]:.0f} MB/s",
            kept=whole and speed >= AT_LEAST[vendor],
            facts={**found, "speed": speed, "whole": whole},
            MB_per_s=f"{speed:.1f}",
            MB_per_CPU_s=f"{found['bytes'] / MB / found['cpu']:.1f}",
            peak_MB=f"{found['peak'] / MB:.0f}",
            events=f"{found['events']:,}",
            events_per_s=f"{found['events'] / found['wall']:,.0f}",
        )
        report.add(
            f"{provider}: its peak memory",
            promise=f"<= {MOST_BYTES // MB} MB",
            kept=found["peak"] <= MOST_BYTES,
            peak_MB=f"{found['peak'] / MB:.0f}",
        )
        if provider == "claude" and size <= MOST_FOR_ITS_OWN_READER:
            own = _in_a_process([sys.executable, "-c", OWN_READER, session_id], CLAUDE_CONFIG_DIR=str(home))
            report.add(
                "claude: the SDK's get_session_messages, reading only",
                facts=own,
                MB_per_s=f"{size / MB / own['wall']:.1f}",
                MB_per_CPU_s=f"{size / MB / own['cpu']:.1f}",
                peak_MB=f"{own['peak'] / MB:.0f}",
                events=f"{own['messages']:,}",
            )
        path.unlink()
    report.notes.append("An import pauses 2 ms after each batch, so that nobody waits; that is in the figures.")
    return report


def _in_a_process(command: list[str], **more: str) -> dict[str, Any]:
    begun = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[2]} failed after {time.monotonic() - begun:.0f} s: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found

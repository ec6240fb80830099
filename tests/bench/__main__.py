"""The command line: ``make bench [ARGS="--only fork,import --database sqlite --quick --huge --json FILE"]``.

Exits 1 when a section could not be run; a promise that was not kept is told in the table, because a busy machine is no
mistake in the program. With ``--check`` it exits 1 for that, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.one import MODULES
from tests.bench.places import DATABASES, PROJECT, place, server
from tests.machine import MissingProgram


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measure the promises of the design.")
    parser.add_argument("--only", type=_sections, default=list(MODULES), metavar="SECTION,...", help=", ".join(MODULES))
    parser.add_argument("--database", choices=DATABASES, help="one of the two (default: both)")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it runs, not how fast")
    parser.add_argument("--huge", action="store_true", help="import transcripts of 2 GB")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there as well")
    parser.add_argument("--check", action="store_true", help="exit 1 when a promise was not kept")
    return parser.parse_args()


def _sections(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(MODULES)}")
    return names


def run_sections(database: str, names: Sequence[str], options: Sequence[str]) -> list[dict[str, Any]]:
    """The reports of the sections on one database. Raises CalledProcessError, MissingProgram, RuntimeError."""
    reports = []
    with server(database) as url, tempfile.TemporaryDirectory(prefix="forkhost-bench-results-") as folder:
        for name in names:
            result = Path(folder) / f"{name}.json"
            command = [sys.executable, "-m", "tests.bench.one", name, str(result), *options]
            with place(url) as environ:
                _run(command, environ)
            reports.append({"database": database, **json.loads(result.read_text())})
    return reports


def _run(command: list[str], environ: dict[str, str]) -> None:
    """Run a section to its end; when this process is stopped first, the section stops what it started, too."""
    with subprocess.Popen(command, cwd=PROJECT, env=environ) as process:
        try:
            code = process.wait()
        finally:
            process.terminate()
    if code:
        raise subprocess.CalledProcessError(code, command)


def main() -> int:
    """Run what was asked for; the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    asked = arguments()
    options = [f"--{name}" for name in ("quick", "huge") if getattr(asked, name)]
    reports: list[dict[str, Any]] = []
    begun = time.monotonic()
    print(f"forkhost's promises, measured on {os.cpu_count()} cores. Times are wall time.\n", flush=True)
    try:
        for database in [asked.database] if asked.database else DATABASES:
            reports += run_sections(database, asked.only, options)
    except (MissingProgram, RuntimeError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if asked.json:
        asked.json.write_text(json.dumps(reports, indent=1))
    verdicts = [row["kept"] for report in reports for row in report["rows"] if row["kept"] is not None]
    kept = sum(verdicts)
    outcome = f"{kept} of {len(verdicts)} promises kept" if verdicts else "Nothing was promised about these"
    print(f"{outcome}, {time.monotonic() - begun:.0f} s.")
    return 1 if asked.check and kept < len(verdicts) else 0


if __name__ == "__main__":
    raise SystemExit(main())

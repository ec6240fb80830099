"""The long form of the fault tests: kills real worker processes a thousand times and says what was left.

    python -m tests.faults --kills 1000 --seed 7 [--database sqlite|postgresql] [--provider fake|codex|claude] [--row NAME]

Each database runs in a process of its own (``--database`` given), because Django knows one. Exits non-zero when an
operation was lost, or anything was made twice, or a rule was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.rows import Row
    from tests.postgres import Server

DATABASES = ("sqlite", "postgresql")
PROVIDERS = ("fake", "codex", "claude")
# Workers killed in each row of a real agent; the rest of the kills are shared by the rows of the fake one.
REAL_KILLS = 2

COLUMNS = (
    *("kills", "operations", "calls", "children", "committed", "failed", "unknowns", "settled", "waiting"),
    *("lost", "doubled", "wrong"),
)


def main() -> int:
    """The command line; the exit code."""
    # Leaves the blocks that end servers and workers, and so ends them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000, help="workers to kill in all (default: 1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--database", choices=DATABASES, help="this one alone")
    parser.add_argument("--provider", choices=PROVIDERS, help="this agent alone")
    parser.add_argument("--row", action="append", default=[], help="this row alone; may be repeated")
    parser.add_argument("--forks", type=int, default=0, help="forks in each batch")
    parser.add_argument("--lines", action="store_true", help="JSON lines instead of a table")
    options = parser.parse_args(namespace=argparse.Namespace(broken={}))
    begun = time.monotonic()
    results = list(_one_database(options)) if options.database else list(_every_database(options))
    if options.lines:
        return 0
    _table(results)
    bad = sum(result["lost"] + result["doubled"] + result["wrong"] for result in results)
    workers = sum(result["kills"] for result in results if result["worker"])
    others = sum(result["kills"] for result in results if not result["worker"])
    print(f"\nseed {options.seed}: {workers} workers and {others} agents' processes killed in", end=" ")
    print(f"{time.monotonic() - begun:.0f} s; lost, doubled or wrong: {bad}")
    if options.broken:
        sys.stderr.write(f"Not every run came to its end: {options.broken}\n")
    return 1 if bad or options.broken or not results else 0


def _every_database(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Both at the same time: much of a run is waiting for leases to end."""
    kills = str(-(-options.kills // len(DATABASES)))
    running = []
    for name in DATABASES:
        command = [sys.executable, "-m", "tests.faults", "--database", name, "--lines", "--seed", str(options.seed)]
        given = [("kills", kills), ("provider", options.provider), ("forks", options.forks)]
        for option, value in [*given, *(("row", row) for row in options.row)]:
            command += [f"--{option}", str(value)] if value else []
        lines = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115  (lives as long as the process)
        running.append((name, subprocess.Popen(command, stdout=lines), lines))
    try:
        codes = {name: process.wait() for name, process, _ in running}
    finally:
        for _, process, _ in running:
            process.terminate()
            process.wait()
    for _, _, lines in running:
        lines.seek(0)
        yield from (json.loads(line) for line in lines)
    options.broken = {name: code for name, code in codes.items() if code}


def _one_database(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="forkhost-faults-")))
        server = _use_database(options.database, folder, stack)
        from tests.faults import rows
        from tests.faults.deeds import prepare_process
        from tests.faults.zygote import STALL, Zygote

        prepare_process()
        environment = {"DATABASE_URL": os.environ["DATABASE_URL"], **STALL}
        zygote = stack.enter_context(Zygote(environment, folder / "workers.log"))
        sys.stderr.write(f"{options.database}: {zygote.seconds_to_start:.1f} s to start, then a fork a worker\n")
        providers = [options.provider] if options.provider else PROVIDERS
        chosen = [row for provider in providers for row in rows.rows(provider, server)]
        chosen = [row for row in chosen if not options.row or row.name in options.row]
        for row in chosen:
            # Each row's chance is its own, so that one row alone does what it did among all.
            chance = random.Random(f"{options.seed}/{options.database}/{row.provider}/{row.name}")
            found = rows.run(row, _quota(row, chosen, options.kills), zygote, folder / "homes", chance, options.forks)
            result = {name: value for name, value in vars(found).items() if not isinstance(value, list)}
            result |= {name: len(value) for name, value in vars(found).items() if isinstance(value, list)}
            result |= {"database": options.database, "provider": row.provider, "row": row.name}
            result["worker"] = row.kills_workers
            line = json.dumps(result)
            if options.lines:
                print(line, flush=True)
            sys.stderr.write(f"{line}\n")
            yield result


def _quota(row: Row, chosen: list[Row], kills: int) -> int:
    if row.provider != "fake":
        return REAL_KILLS
    real = sum(REAL_KILLS for each in chosen if each.provider != "fake" and not each.few)
    fake = sum(each.provider == "fake" and not each.few for each in chosen)
    return max(1, -(-(kills - real) // fake)) if fake else 1


def _use_database(name: str, folder: Path, stack: contextlib.ExitStack) -> Server | None:
    """Set Django up on an empty database of that kind; the server when there is one."""
    import django

    from tests.postgres import server as postgres

    running = stack.enter_context(postgres()) if name == "postgresql" else None
    os.environ["DATABASE_URL"] = running.url if running is not None else f"sqlite:///{folder / 'faults.sqlite3'}"
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ.setdefault("FORKHOST_LOG_LEVEL", "ERROR")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    return running


def _table(results: list[dict[str, Any]]) -> None:
    widths = {"row": 27, "provider": 8, "database": 10}
    heads = [*widths, *COLUMNS]
    print("  ".join(head.ljust(widths[head]) if head in widths else head.rjust(len(head)) for head in heads))
    for result in results:
        cells = [str(result[head]) for head in heads]
        line = [
            cell.ljust(widths[head]) if head in widths else cell.rjust(len(head))
            for head, cell in zip(heads, cells, strict=True)
        ]
        print("  ".join(line))
    totals = [sum(result[head] for result in results) for head in COLUMNS]
    label = "in all".ljust(sum(widths.values()) + 4)
    print("  ".join([label, *(str(total).rjust(len(head)) for head, total in zip(COLUMNS, totals, strict=True))]))


if __name__ == "__main__":
    sys.exit(main())

"""Runs the whole suite on SQLite and on PostgreSQL (what touches no database on the first only); says how each went.

    python -m tests.run [--only sqlite|postgresql] [pytest's own arguments]

Tests marked ``serial`` run first, one at a time on each database; the others share the cores, each worker with a database
of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from tests.machine import MissingProgram
from tests.postgres import cluster

SQLITE = "sqlite"
POSTGRESQL = "postgresql"
NOTHING_COLLECTED = 5
# The adapters know no model: their tests touch no database, so once is enough.
WITHOUT_DATABASE = ("tests/codex", "tests/claude")
SERIAL = ("-m", "serial")
SHARED = ("-m", "not serial", "-n", "2", "--dist", "worksteal")


@dataclass
class Result:
    """What one database's runs counted."""

    database: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    broken: bool = False

    def count(self, report: Path) -> None:
        """Add the numbers of one of pytest's reports."""
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            self.failed += bad
            self.skipped += skipped
            self.passed += int(suite.get("tests", 0)) - bad - skipped


@contextlib.contextmanager
def database(name: str) -> Iterator[dict[str, str]]:
    """The environment that makes the tests use this database."""
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    if name == SQLITE:
        yield environment
        return
    with cluster() as url:
        yield {**environment, "DATABASE_URL": url}


def run_part(
    result: Result, part: Sequence[str], arguments: Sequence[str], environment: dict[str, str], output: int | None
) -> str:
    """One part of the tests on one database, added to ``result``; what pytest said when ``output`` is a pipe."""
    begun = time.monotonic()
    once = [f"--ignore={without}" for without in WITHOUT_DATABASE] if result.database != SQLITE else []
    with tempfile.TemporaryDirectory(prefix="forkhost-report-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", *part, *once, *arguments]
        done = subprocess.run(command, env=environment, stdout=output, stderr=output, text=True, check=False)
        if done.returncode != NOTHING_COLLECTED:
            result.broken |= done.returncode != 0
            if report.exists():
                result.count(report)
    result.seconds += time.monotonic() - begun
    return f"{done.stdout or ''}{done.stderr or ''}"


def run_on(names: Sequence[str], arguments: Sequence[str]) -> list[Result]:
    """Every test on these databases: what has to be alone on each at the same time, the rest on one after the other."""
    results = [Result(name) for name in names]
    with contextlib.ExitStack() as stack:
        environments = [stack.enter_context(database(name)) for name in names]
        print(f"=== serial, {' and '.join(names)} ===", flush=True)
        with ThreadPoolExecutor(len(names)) as pool:
            parts = pool.map(
                run_part, results, repeat(SERIAL), repeat(arguments), environments, repeat(subprocess.PIPE)
            )
            for said in parts:
                print(said, flush=True)
        for result, environment in zip(results, environments, strict=True):
            print(f"=== {result.database} ===", flush=True)
            run_part(result, SHARED, arguments, environment, None)
    return results


def main() -> int:
    """The command line; the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=(SQLITE, POSTGRESQL))
    known, arguments = parser.parse_known_args()
    try:
        results = run_on([known.only] if known.only else [SQLITE, POSTGRESQL], arguments)
    except (MissingProgram, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for each in results:
        print(
            f"{each.database}: {each.passed} passed, {each.failed} failed, {each.skipped} skipped, {each.seconds:.0f} s"
        )
    passed, failed = sum(each.passed for each in results), sum(each.failed for each in results)
    print(f"{passed} passed, {failed} failed")
    if not passed:
        sys.stderr.write("No test ran.\n")
    return 0 if passed and not any(each.broken for each in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())

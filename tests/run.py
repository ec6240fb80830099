"""Runs the whole suite on SQLite and on PostgreSQL (what touches no database on the first only); says how each went.

    python -m tests.run [--only sqlite|postgresql] [pytest's own arguments]

Tests marked ``serial`` run first and alone; the others share the cores, each worker with a database of its own.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.machine import MissingProgram
from tests.postgres import cluster

SQLITE = "sqlite"
POSTGRESQL = "postgresql"
NOTHING_COLLECTED = 5
# The adapters know no model: their tests touch no database, so once is enough.
WITHOUT_DATABASE = ("tests/codex", "tests/claude")
PARTS = (("-m", "serial"), ("-m", "not serial", "-n", "2", "--dist", "worksteal"))


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


def run_on(name: str, arguments: list[str]) -> Result:
    """Every test on one database."""
    result = Result(name)
    begun = time.monotonic()
    print(f"=== {name} ===", flush=True)
    with database(name) as environment, tempfile.TemporaryDirectory(prefix="forkhost-report-") as folder:
        for number, part in enumerate(PARTS):
            report = Path(folder) / f"{number}.xml"
            once = [f"--ignore={without}" for without in WITHOUT_DATABASE] if name != SQLITE else []
            command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", *part, *once, *arguments]
            code = subprocess.run(command, env=environment, check=False).returncode
            if code == NOTHING_COLLECTED:
                continue
            result.broken |= code != 0
            if report.exists():
                result.count(report)
    result.seconds = time.monotonic() - begun
    return result


def main() -> int:
    """The command line; the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=(SQLITE, POSTGRESQL))
    known, arguments = parser.parse_known_args()
    try:
        results = [run_on(name, arguments) for name in ([known.only] if known.only else (SQLITE, POSTGRESQL))]
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

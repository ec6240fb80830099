"""One section in a process of its own.

    python -m tests.bench.one SECTION RESULT.json [--quick] [--huge]

Prints its table and writes its numbers to ``RESULT.json``. The environment is that of :func:`tests.bench.places.place`.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import signal
import sys
from pathlib import Path

import django

MODULES = {
    "fork": "tests.bench.fork_cost",
    "many": "tests.bench.many_forks",
    "host": "tests.bench.host_share",
    "workers": "tests.bench.workers",
    "import": "tests.bench.importing",
    "pages": "tests.bench.pages",
    "lists": "tests.bench.lists",
    "agents": "tests.bench.agents",
}


def main(section: str, result: str, *options: str) -> None:
    """Run it."""
    # What was started is stopped in `finally` blocks, which an exception reaches and a bare signal does not.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    django.setup()
    from django.db import connection

    from tests.bench.sizes import FULL, HUGE_BYTES, QUICK

    sizes = QUICK if "--quick" in options else FULL
    if "--huge" in options:
        sizes = dataclasses.replace(sizes, transcript_bytes=HUGE_BYTES)
    report = importlib.import_module(MODULES[section]).run(sizes, connection.vendor)
    if sizes.quick:
        # Small sizes tell whether it runs, not how fast.
        for row in report.rows:
            row.kept = None
    print(report.text(), flush=True)
    Path(result).write_text(json.dumps(report.as_json()))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The long form of the random runs: ten thousand steps per contract and database, and which ways they took.

    python -m tests.random_runs [--steps 10000] [--contract optimistic|strict|both]
                                [--database sqlite|postgresql|both] [--seed N]

Each contract on each database runs in a process of its own, two at a time. The seed is printed; the same seed takes the
same steps. Exits non-zero when an invariant broke, something unexplained was refused, or a way was never taken.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

DATABASES = ("sqlite", "postgresql")
CONTRACTS = ("optimistic", "strict")
CHUNK = 500
# Fewer steps cannot be asked to have taken every way.
WHOLE = 5000


def main() -> int:
    """The command line; the exit code."""
    # Ends the with blocks, and so the database's server, when somebody ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--contract", choices=(*CONTRACTS, "both"), default="both")
    parser.add_argument("--database", choices=(*DATABASES, "both"), default="both")
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time (default: 2)")
    options = parser.parse_args()
    luck = random.randrange(2**32) if options.seed is None else options.seed
    contracts = CONTRACTS if options.contract == "both" else (options.contract,)
    databases = DATABASES if options.database == "both" else (options.database,)
    if len(contracts) == len(databases) == 1:
        return _run(databases[0], contracts[0], options.steps, luck)
    print(f"seed {luck}", flush=True)
    with ThreadPoolExecutor(options.parallel) as pool:
        pairs = [(database, contract) for contract in contracts for database in databases]
        return max(pool.map(lambda pair: _process(*pair, options.steps, luck), pairs))


def _process(database: str, contract: str, steps: int, luck: int) -> int:
    command = [sys.executable, "-m", "tests.random_runs", "--database", database, "--contract", contract]
    done = subprocess.run(
        [*command, "--steps", str(steps), "--seed", str(luck)], capture_output=True, text=True, check=False
    )
    print(done.stdout + (done.stderr if done.returncode else ""), flush=True)
    return done.returncode


def _run(database: str, contract: str, steps: int, luck: int) -> int:
    with contextlib.ExitStack() as stack:
        _use_database(database, stack)
        from sessions.choices import ForkContract
        from tests.random_runs import runs

        reached: Counter[str] = Counter()
        begun = time.monotonic()
        chunk = 0
        while reached["steps"] < steps:
            sys.stderr.write(f"{database}, {contract}: {reached['steps']} steps, {time.monotonic() - begun:.0f} s\n")
            runs.run(ForkContract(contract), min(CHUNK, steps), luck + chunk, reached)
            chunk += 1
        taken = f"{reached['steps']} steps in {time.monotonic() - begun:.0f} s"
        print(f"{database}, {contract}: {taken}, seeds {luck} to {luck + chunk - 1}")
        for way, count in sorted(reached.items()):
            print(f"  {count:7}  {way}")
        missed = runs.not_taken(ForkContract(contract), reached) if steps >= WHOLE else []
        strange = runs.unexpected(reached)
        if missed or strange:
            print(f"  never taken: {missed}; not explained: {sorted(strange)}")
        return 1 if missed or strange else 0


def _use_database(name: str, stack: contextlib.ExitStack) -> None:
    """Django on an empty database of that kind, with the fake agent as the one adapter."""
    import django

    from tests.postgres import cluster

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="forkhost-soak-")))
    where = stack.enter_context(cluster()) if name == "postgresql" else f"sqlite:///{folder / 'runs.sqlite3'}"
    os.environ["DATABASE_URL"] = where
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ.setdefault("FORKHOST_LOG_LEVEL", "CRITICAL")
    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from sessions.providers import registry
    from tests.agents.fake_provider import PROVIDER, FakeAdapter

    # What others may not see is looked for on purpose, all the time.
    logging.getLogger("django.request").setLevel(logging.ERROR)
    call_command("migrate", verbosity=0)
    if connection.vendor == "sqlite":
        # Losing a run with the power is no loss.
        connection.cursor().execute("PRAGMA synchronous=OFF")
    found = registry.Registry(MappingProxyType({PROVIDER: FakeAdapter()}))
    registry.registry = lambda: found  # type: ignore[assignment]


if __name__ == "__main__":
    sys.exit(main())

"""Runs every check that needs no test, all of them even when one fails, and says which failed.

python -m tests.lint                    the checks
python -m tests.lint --write-openapi    write openapi.json anew instead
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
MANAGE = (sys.executable, "manage.py")
OPENAPI = ROOT / "openapi.json"
LABELS = ("agent_sessions", "operations", "forkhost")
HTTPS = {"FORKHOST_PUBLIC_URL": "https://forkhost.example.com"}


@dataclass(frozen=True)
class Check:
    """One command that exits 0 when all is well."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def checks(folder: Path) -> Iterator[Check]:
    """All of them, the quick ones first."""
    templates = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "templates").rglob("*.html"))
    yield Check("ruff check", (str(BIN / "ruff"), "check", "--quiet", "."))
    yield Check("ruff format", (str(BIN / "ruff"), "format", "--check", "--quiet", "."))
    if templates:
        yield Check("djade", (str(BIN / "djade"), "--check", "--target-version", "5.2", *templates))
    yield Check("import-linter", (str(BIN / "lint-imports"), "--no-cache"), {"PYTHONPATH": str(ROOT)})
    yield Check("migrations", (*MANAGE, "makemigrations", "--check", "--dry-run", *LABELS))
    yield Check("check --deploy", (*MANAGE, "check", "--deploy", "--fail-level", "WARNING"), HTTPS)
    schema = folder / "openapi.json"
    yield Check("openapi schema", write_schema(schema))
    yield Check("openapi.json is current", ("diff", "-u", str(OPENAPI), str(schema)))
    yield Check("mypy", (str(BIN / "mypy"),))


def write_schema(target: Path) -> tuple[str, ...]:
    """The command that writes the API's schema."""
    return (*MANAGE, "spectacular", "--format", "openapi-json", "--validate", "--fail-on-warn", "--file", str(target))


def environment(folder: Path) -> dict[str, str]:
    """No check may touch the data of the person who runs it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FORKHOST_", "DATABASE_URL"))}
    return {**own, "FORKHOST_DATA": str(folder / "data"), "FORKHOST_LOG_LEVEL": "WARNING"}


def main(arguments: list[str]) -> int:
    """The command line; the exit code."""
    with tempfile.TemporaryDirectory(prefix="forkhost-lint-") as name:
        folder = Path(name)
        base = environment(folder)
        if arguments == ["--write-openapi"]:
            return subprocess.run(write_schema(OPENAPI), cwd=ROOT, env=base, check=False).returncode
        failed = []
        for check in checks(folder):
            begun = time.monotonic()
            done = subprocess.run(
                check.command, cwd=ROOT, env={**base, **check.environment}, capture_output=True, text=True, check=False
            )
            print(f"{'ok    ' if done.returncode == 0 else 'FAILED'} {check.name} ({time.monotonic() - begun:.1f} s)")
            if done.returncode:
                failed.append(check.name)
                print(done.stdout + done.stderr, flush=True)
    if failed:
        sys.stderr.write(f"Failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

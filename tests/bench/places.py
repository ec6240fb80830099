"""A place for one section: an empty database, a data folder, homes of no agent, and a provider that makes nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.postgres import cluster

PROJECT = Path(__file__).parents[2]
SQLITE, POSTGRESQL = "sqlite", "postgresql"
DATABASES = (SQLITE, POSTGRESQL)
ENTRY_POINT = """\
[forkhost.providers]
noop = tests.bench.noop_provider:NoopAdapter
"""


@contextlib.contextmanager
def server(database: str) -> Iterator[str]:
    """The URL of a durable PostgreSQL server; "" for SQLite, which needs none. Raises MissingProgram, RuntimeError."""
    if database == SQLITE:
        yield ""
        return
    with cluster(durable=True) as url:
        yield url


@contextlib.contextmanager
def place(server_url: str) -> Iterator[dict[str, str]]:
    """The environment of a section: a migrated database of its own, gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="forkhost-bench-") as name:
        folder = Path(name)
        with _database(server_url, folder) as url:
            environ = {**os.environ, **_settings(folder), "DATABASE_URL": url}
            migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
            subprocess.run(migrate, cwd=PROJECT, env=environ, check=True)
            yield environ


def _settings(folder: Path) -> dict[str, str]:
    plugin = folder / "plugins" / "noop_provider-1.dist-info"
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: noop-provider\nVersion: 1\n")
    (plugin / "entry_points.txt").write_text(ENTRY_POINT)
    return {
        "DJANGO_SETTINGS_MODULE": "forkhost.settings",
        "FORKHOST_DATA": str(folder / "data"),
        "FORKHOST_LOG_LEVEL": "WARNING",
        "FORKHOST_BENCH": str(folder),
        "CODEX_HOME": str(folder / "codex"),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(plugin.parent)]),
    }


@contextlib.contextmanager
def _database(server_url: str, folder: Path) -> Iterator[str]:
    if not server_url:
        yield f"sqlite:///{folder / 'forkhost.sqlite3'}"
        return
    name = f"bench_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield f"{server_url.rpartition('/')[0]}/{name}"
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

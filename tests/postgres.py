"""A PostgreSQL cluster of one's own, gone when the block ends.

    python -m tests.postgres COMMAND...    run COMMAND with DATABASE_URL pointing at it; exits as COMMAND does
    python -m tests.postgres               print DATABASE_URL and keep it until interrupted

It lives in a temporary folder, listens on a socket there that nobody else can reach, and is ended in every case but a
kill -9 of this process.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from tests.machine import MissingProgram, postgres_bin

USER = "forkhost"
DATABASE = "forkhost"
START_SECONDS = 60
# Losing a test's data with the power is no loss; a benchmark asks for durable=True.
UNSAFE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@dataclass
class Server:
    """A running cluster of one's own."""

    programs: Path
    folder: Path
    owner: dict[str, Any]
    durable: bool
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """``DATABASE_URL`` of its database."""
        return f"postgresql://{USER}@{quote(str(self.folder), safe='')}/{DATABASE}"

    def restart(self) -> None:
        """End it at once, as a power cut would (``pg_ctl restart -m immediate``), and start it again."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=30)
        self.process = _start(self.programs, self.folder, self.owner, durable=self.durable)
        _wait_until_ready(self.process, self.folder)


@contextlib.contextmanager
def server(*, durable: bool = False) -> Iterator[Server]:
    """Start a cluster with an empty database. Raises MissingProgram, RuntimeError."""
    programs = postgres_bin()
    # Short, and not below TMPDIR: a socket's path has to fit into 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="fhpg-", dir="/tmp"))
    try:
        owner = _owner()
        if owner:
            os.chown(folder, owner["user"], owner["group"])
        _initdb(programs, folder, owner)
        running = Server(programs, folder, owner, durable, _start(programs, folder, owner, durable=durable))
        try:
            _wait_until_ready(running.process, folder)
            _create_database(folder)
            yield running
        finally:
            _stop(running.process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def cluster(*, durable: bool = False) -> Iterator[str]:
    """Start a cluster and yield the URL of an empty database. Raises MissingProgram, RuntimeError."""
    with server(durable=durable) as running:
        yield running.url


def _owner() -> dict[str, Any]:
    """Root may not run PostgreSQL: its package's user does. Nothing to change for anybody else."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _initdb(programs: Path, folder: Path, owner: dict[str, Any]) -> None:
    command = [
        *(str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "trust", "--no-sync"),
        *("-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **owner)
    if done.returncode:
        raise RuntimeError(f"initdb failed: {done.stderr.strip()}")


def _start(programs: Path, folder: Path, owner: dict[str, Any], *, durable: bool) -> subprocess.Popen[bytes]:
    settings = ["listen_addresses=", f"unix_socket_directories={folder}", "max_connections=200", "timezone=UTC"]
    settings += () if durable else UNSAFE
    command = [str(programs / "postgres"), "-D", str(folder / "data")]
    for each in settings:
        command += ["-c", each]
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **owner)


def _wait_until_ready(server: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(host=str(folder), user=USER, dbname="postgres", connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                log = (folder / "server.log").read_text(errors="replace")
                raise RuntimeError(f"PostgreSQL did not start: {log[-2000:]}") from None
            time.sleep(0.05)


def _create_database(folder: Path) -> None:
    with psycopg.connect(host=str(folder), user=USER, dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGINT)
    try:
        server.wait(timeout=30)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGQUIT)
        server.wait(timeout=10)


def main(arguments: list[str]) -> int:
    """The command line; the exit code."""
    # Ends the with block, and so the cluster, when a CI runner ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with cluster() as url:
            if arguments:
                return subprocess.run(arguments, env={**os.environ, "DATABASE_URL": url}, check=False).returncode
            print(url, flush=True)
            signal.pause()
    except (MissingProgram, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

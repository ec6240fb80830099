"""What has to be in place before forkhost works: the database's tables, the first user, the pages' static files."""

from __future__ import annotations

import getpass
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.migrations.executor import MigrationExecutor

from sessions import workspaces
from sessions.choices import MemberRole

if TYPE_CHECKING:
    from sessions.models import Workspace

FALLBACK_USERNAME = "operator"
STATIC_STAMP = ".collected"


def migrate() -> None:
    """Bring the database up to this version. Raises CommandError with a sentence when it cannot be reached or used."""
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except Error as error:
        raise CommandError(f"The database cannot be used: {_first_line(error)}") from error


def refuse_unmigrated() -> None:
    """Raise CommandError unless the database has the tables of this very version."""
    try:
        executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error as error:
        raise CommandError(f"The database cannot be used: {_first_line(error)}") from error
    if missing:
        raise CommandError(
            f"The database is not up to date ({len(missing)} migrations are missing). Run: ./manage.py migrate"
        )


def _first_line(error: Exception) -> str:
    """Drivers say more than fits a sentence, and the rest may name the password's place."""
    return (str(error).strip() or type(error).__name__).split("\n", 1)[0]


def require_writable_data() -> None:
    """Raise CommandError when nothing can be written to the data folder."""
    folder = Path(settings.FORKHOST_DATA)
    probe = folder / f".probe-{os.getpid()}"
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CommandError(
            f"The data folder {folder} cannot be written to ({error.strerror}). Choose another with --data DIR."
        ) from error


def first_user(workspace: Workspace) -> User:
    """The operator of this machine: the first superuser, made after the system's user when there is none.

    It has no password: it signs in by a one-time link until somebody sets one in the admin.
    """
    user = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if user is None:
        user = User.objects.create_user(_free_username(), is_staff=True, is_superuser=True)
    workspaces.join(user, workspace, MemberRole.OPERATOR)
    return user


def _free_username() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = FALLBACK_USERNAME
    number = 2
    free = name
    while User.objects.filter(username=free).exists():
        free, number = f"{name}{number}", number + 1
    return free


def collect_static() -> None:
    """Put the pages' static files where the web server reads them; at once when nothing changed since last time."""
    root = Path(settings.STATIC_ROOT)
    stamp = root / STATIC_STAMP
    wanted = _static_fingerprint()
    if stamp.is_file() and stamp.read_text(encoding="ascii", errors="replace") == wanted:
        return
    root.mkdir(parents=True, exist_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(wanted, encoding="ascii")


def _static_fingerprint() -> str:
    from django.contrib.staticfiles.finders import get_finders

    digest = hashlib.sha256(repr(settings.STORAGES["staticfiles"]).encode())
    for finder in get_finders():
        for path, storage in finder.list([]):
            stat = os.stat(storage.path(path))
            digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()

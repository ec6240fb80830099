"""Turns the environment into typed values for :mod:`forkhost.settings`.

Every function raises :class:`ImproperlyConfigured` with a sentence naming the variable when its value cannot be used.
Nothing here needs Django to be set up.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

DJANGO_SQLITE = "django.db.backends.sqlite3"
SQLITE = "forkhost.kit.sqlite"
POSTGRESQL = "django.db.backends.postgresql"

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")

# FULL, because "committed" has to survive a power cut. recursive_triggers, because INSERT OR REPLACE would otherwise
# delete a settled row without firing its delete guard.
SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA recursive_triggers=ON",
    "PRAGMA cache_size=-20000",
    "PRAGMA mmap_size=134217728",
)
SQLITE_BUSY_SECONDS = 10
# How often a connection has to meet a statement before PostgreSQL keeps it.
POSTGRESQL_SETTINGS = "-c jit=off -c max_parallel_workers_per_gather=0"
PREPARE_AFTER = 3

_MAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Where forkhost keeps its data when nobody says otherwise: the XDG data home of this user."""
    base = environ.get("XDG_DATA_HOME", "")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "share"
    return root / "forkhost"


def data_dir(value: str | None, environ: Mapping[str, str]) -> Path:
    """The absolute data folder, made (0700) when it is missing."""
    path = Path(value).expanduser().absolute() if value else default_data_dir(environ)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The data folder {path} cannot be made ({error.strerror}). Set FORKHOST_DATA to a folder you can write."
        ) from error
    return path


def secret_key(given: str | None, folder: Path) -> str:
    """``given`` when set, else the key kept in ``folder``, generated once with mode 0600 and safe against races."""
    if given:
        if len(given) < 32:
            raise ImproperlyConfigured("FORKHOST_SECRET_KEY has to be at least 32 characters long.")
        return given
    path = folder / "secret_key"
    try:
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(64))
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"The secret key in {path} cannot be read or written: {error}.") from error
    if len(key) < 32:
        raise ImproperlyConfigured(f"The secret key in {path} is damaged. Delete the file to have a new one generated.")
    return key


def _write_once(path: Path, text: str) -> None:
    """Make ``path`` appear complete or not at all; the first of several writers wins."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".secret_key-")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)
        except FileExistsError:
            return
    finally:
        os.unlink(name)


def public_url(value: str) -> tuple[str, str, bool]:
    """``(origin, host as in a Host header without port, is https)``; three empty values when ``value`` is empty."""
    if not value:
        return "", "", False
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"FORKHOST_PUBLIC_URL is not a URL: {error}.") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ImproperlyConfigured("FORKHOST_PUBLIC_URL has to look like https://forkhost.example.com.")
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise ImproperlyConfigured("FORKHOST_PUBLIC_URL has to be scheme and host alone, without path, query or user.")
    shown = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{shown}" + (f":{port}" if port else "")
    return origin, shown, parts.scheme == "https"


def purge_after_days(value: float) -> float:
    """How long deleted sessions are kept. Raises :class:`ImproperlyConfigured` outside of 0 (for ever) to 36500."""
    if not 0 <= value <= 36500:
        raise ImproperlyConfigured("FORKHOST_PURGE_AFTER_DAYS has to lie between 0, which is never, and 36500.")
    return value


def lease_seconds(value: float) -> float:
    """For how long a worker's silence leaves its forks alone, from 1 to 3600 seconds."""
    if not 1 <= value <= 3600:
        raise ImproperlyConfigured("FORKHOST_LEASE_SECONDS has to lie between 1 and 3600.")
    return value


def email(url: str) -> dict[str, Any]:
    """Django's ``EMAIL_*`` settings from ``smtp://user:password@host:port``; empty when ``url`` is empty.

    ``smtp+tls`` upgrades the connection with STARTTLS, ``smtps`` encrypts it from the start. User and password are
    percent-encoded.
    """
    if not url:
        return {}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ImproperlyConfigured("FORKHOST_EMAIL_URL is not a URL.") from error
    if parts.scheme not in _MAIL_PORTS or not host or parts.path.strip("/") or parts.query:
        raise ImproperlyConfigured("FORKHOST_EMAIL_URL has to look like smtp+tls://user:password@mail.example.com:587.")
    return {
        "EMAIL_HOST": host,
        "EMAIL_PORT": port or _MAIL_PORTS[parts.scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_TIMEOUT": 10,
    }


def database(url: str | None, folder: Path, *, pool: bool) -> dict[str, Any]:
    """Django's settings for the one database: SQLite in ``folder`` unless ``url`` says otherwise.

    ``pool`` turns Django's psycopg pool on; otherwise connections persist per thread.
    """
    if not url:
        return _sqlite({"ENGINE": SQLITE, "NAME": str(folder / "forkhost.sqlite3")})
    try:
        parsed: dict[str, Any] = dict(dj_database_url.parse(url))
    except (ValueError, KeyError) as error:
        # The URL may hold a password, so the message repeats no part of it.
        raise ImproperlyConfigured(
            "DATABASE_URL is not understood. Use postgresql://user:password@host:5432/name or sqlite:////path/to/file."
        ) from error
    if parsed["ENGINE"] == DJANGO_SQLITE:
        return _sqlite({**parsed, "ENGINE": SQLITE})
    if parsed["ENGINE"] == POSTGRESQL:
        return _postgresql(parsed, pool=pool)
    raise ImproperlyConfigured("DATABASE_URL has to name a PostgreSQL or an SQLite database.")


def _sqlite(parsed: dict[str, Any]) -> dict[str, Any]:
    if parsed["NAME"] == ":memory:":
        raise ImproperlyConfigured("DATABASE_URL has to name an SQLite file: web and worker share it.")
    options = parsed.setdefault("OPTIONS", {})
    options["transaction_mode"] = "IMMEDIATE"
    options["timeout"] = SQLITE_BUSY_SECONDS
    options["init_command"] = ";".join(SQLITE_PRAGMAS)
    parsed["CONN_MAX_AGE"] = None
    return parsed


def _postgresql(parsed: dict[str, Any], *, pool: bool) -> dict[str, Any]:
    if not parsed["NAME"]:
        raise ImproperlyConfigured("DATABASE_URL names no database: add /name at its end.")
    options = parsed.setdefault("OPTIONS", {})
    # A statement that comes again is planned once a connection: half of the server's work for a fork.
    options["server_side_binding"] = True
    options["prepare_threshold"] = PREPARE_AFTER
    # All statements are short: compiling one, or starting processes for it, takes longer than the statement.
    # What the URL says comes last, and counts.
    options["options"] = f"{POSTGRESQL_SETTINGS} {options.get('options', '')}".strip()
    parsed["CONN_HEALTH_CHECKS"] = True
    if pool:
        options["pool"] = {"min_size": 1, "max_size": 20, "timeout": 10}
        parsed["CONN_MAX_AGE"] = 0
    else:
        parsed["CONN_MAX_AGE"] = 60
    return parsed

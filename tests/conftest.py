"""Fixtures that every area shares."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from django.db import connection
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper


def _flush_without_triggers() -> None:
    """Let a transactional test flush SQLite: its deletes would meet the triggers that make history immutable.

    ``post_migrate``, which Django's flush sends afterwards, installs them again.
    """
    execute = SQLiteWrapper.ops_class.execute_sql_flush

    @functools.wraps(execute)
    def execute_sql_flush(self: Any, sql_list: list[str]) -> None:
        try:
            from sessions import triggers
        except ImportError:
            pass
        else:
            triggers.drop(self.connection)
        execute(self, sql_list)

    SQLiteWrapper.ops_class.execute_sql_flush = execute_sql_flush


_flush_without_triggers()


@pytest.fixture
def vendor() -> str:
    """``sqlite`` or ``postgresql``."""
    return connection.vendor


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """``DATABASE_URL`` of the test database, for a process of forkhost that a test starts."""
    return url_of(connection.settings_dict)


def url_of(settings: dict[str, Any]) -> str:
    """A Django database entry as the URL that leads to it."""
    from urllib.parse import quote

    if "sqlite" in settings["ENGINE"]:
        return f"sqlite:///{settings['NAME']}"
    user, password = quote(settings["USER"], safe=""), quote(settings["PASSWORD"], safe="")
    host, port = quote(settings["HOST"], safe=""), settings["PORT"]
    secret = f":{password}" if password else ""
    return f"postgresql://{user}{secret}@{host}{f':{port}' if port else ''}/{quote(settings['NAME'])}"

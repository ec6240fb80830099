"""Fixtures that every area shares."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLiteWrapper

from forkhost.kit.clock import HeldClock, held

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from sessions.models import Workspace


def _flush_without_triggers() -> None:
    """Let a transactional test flush SQLite: its deletes would meet the triggers that make history immutable.

    ``post_migrate``, which Django's flush sends afterwards, installs them again.
    """
    execute = SQLiteWrapper.ops_class.execute_sql_flush

    @functools.wraps(execute)
    def execute_sql_flush(self: Any, sql_list: list[str]) -> None:
        from sessions import triggers

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
    if "sqlite" in settings["ENGINE"]:
        return f"sqlite:///{settings['NAME']}"
    user, password = quote(settings["USER"], safe=""), quote(settings["PASSWORD"], safe="")
    host, port = quote(settings["HOST"], safe=""), settings["PORT"]
    secret = f":{password}" if password else ""
    return f"postgresql://{user}{secret}@{host}{f':{port}' if port else ''}/{quote(settings['NAME'])}"


@dataclass(frozen=True)
class People:
    """Who the tests act as: two members and an operator of one workspace, and a member of another."""

    workspace: Workspace
    other_workspace: Workspace
    member: User
    second_member: User
    operator: User
    stranger: User


@pytest.fixture
def people(db: None) -> People:
    """Two workspaces and four people; every password is ``secret``."""
    from django.contrib.auth.models import User

    from sessions.choices import MemberRole
    from sessions.models import Workspace
    from sessions.workspaces import join

    here = Workspace.objects.create(name="Here", slug="here")
    elsewhere = Workspace.objects.create(name="Elsewhere", slug="elsewhere")

    def person(name: str, workspace: Workspace, role: MemberRole = MemberRole.MEMBER) -> User:
        user = User.objects.create_user(name, password="secret", is_staff=role is MemberRole.OPERATOR)
        join(user, workspace, role)
        return user

    return People(
        workspace=here,
        other_workspace=elsewhere,
        member=person("member", here),
        second_member=person("second", here),
        operator=person("operator", here, MemberRole.OPERATOR),
        stranger=person("stranger", elsewhere),
    )


@pytest.fixture
def held_clock() -> Iterator[HeldClock]:
    """The clock, the database's included, standing at noon of 29 July 2026 until it is advanced."""
    with held(dt.datetime(2026, 7, 29, 12, 0, tzinfo=dt.UTC)) as clock:
        yield clock

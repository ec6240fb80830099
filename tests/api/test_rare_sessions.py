"""Few among very many: each list that shows only some sessions finds them by an index of its own."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from sessions import disposal
from sessions.choices import SessionKind
from sessions.filters import SessionFilterSet, _beginning
from sessions.models import EventLog, Session
from sessions.pages.listing import FORKED, _state

if TYPE_CHECKING:
    from sessions.querysets import SessionQuerySet
    from tests.conftest import People

pytestmark = pytest.mark.django_db
MANY = 2_000


@pytest.fixture
def many(people: People, hosted: Callable[..., Session]) -> SessionQuerySet:
    """Sessions as the member's list begins with them."""
    like = hosted(turns=0, cwd="/elsewhere")
    made = []
    for number in range(MANY):
        session = copy.copy(like)
        session._state = copy.copy(like._state)
        session.pk, session.log_id = uuid.uuid4(), 1_000_000 + number
        session.updated_at_unix_ms += number
        made.append(session)
    EventLog.objects.bulk_create(EventLog(id=one.log_id, made_by=one.pk, first_seq=1) for one in made)
    Session.objects.bulk_create(made)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    visible: SessionQuerySet = Session.objects.visible_to(people.member).living().filter(workspace=people.workspace)
    return visible


def index_of(sessions: SessionQuerySet) -> str:
    return str(sessions.order_by("-updated_at_unix_ms", "-id")[:31].explain())


def test_forks(many: SessionQuerySet) -> None:
    assert "session_list_of_forks" in index_of(many.roots().filter(_state(FORKED)))


def test_lanes(many: SessionQuerySet) -> None:
    assert "session_list_of_lanes" in index_of(SessionFilterSet({"kind": SessionKind.CHILD}, queryset=many).qs)


def test_deleted_sessions(people: People, many: SessionQuerySet) -> None:
    assert many.exists()
    deleted = disposal.bin_of(people.member).filter(workspace=people.workspace)
    assert "session_list_of_deleted" in index_of(deleted)


def test_a_folder(many: SessionQuerySet) -> None:
    assert "session_by_folder" in str(many.roots().filter(_beginning("/nowhere")).order_by().explain())


def test_the_newest_of_all_are_not_sorted(many: SessionQuerySet) -> None:
    plan = index_of(many.roots())
    assert "session_list" in plan
    assert "SORT" not in plan.upper().replace("INCREMENTAL SORT", "")
    assert "TEMP B-TREE" not in plan
    assert "SEQ SCAN ON AGENT_SESSIONS_SESSION" not in plan.upper()

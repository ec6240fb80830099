"""Words that are nearly everywhere: as right as rare ones, and what is left out is said to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.core.management.color import no_style
from django.db import connection

from sessions import indexing, search, search_on_postgresql, search_on_sqlite, store
from sessions.models import EventLog, Session
from sessions.store import NewEvent, TurnEnd, TurnStart

if TYPE_CHECKING:
    from tests.conftest import People

AT = 1_790_000_000_000
NAMES = ("titled", "first", "forked late", "forked early", "full", "elsewhere")


pytestmark = pytest.mark.django_db(transaction=True)


def say(session: Session, text: str) -> None:
    event = NewEvent("message.assistant", AT, {"text": text})
    store.append(session.pk, [TurnStart(AT), event, TurnEnd(AT, "completed")])


def leave_out(count: int) -> None:
    """The next log's number is that much higher, as if other sessions had been made meanwhile."""
    log = EventLog.objects.order_by("-pk")[0]
    far = EventLog.objects.create(pk=log.pk + count, made_by=log.made_by, first_seq=1)
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [EventLog]):
            cursor.execute(statement)
    far.delete()


@pytest.fixture
def family(people: People, hosted: Callable[..., Session]) -> dict[str, Session]:
    """Sessions by name; all but the one forked early and the one elsewhere show the member a rabbit."""
    titled = hosted(turns=0, title="A rabbit")
    leave_out(300)
    first = hosted(turns=0)
    say(first, "rabbit")
    leave_out(40_000)
    full = hosted(turns=0)
    say(full, "nothing")
    early = store.fork(full.pk)
    say(full, "rabbit")
    late = store.fork(full.pk)
    for number in range(8):
        say(full, f"rabbits {number}")
    leave_out(300_000)
    elsewhere = hosted(turns=0, workspace=people.other_workspace, created_by=people.stranger)
    for _ in range(5):
        say(elsewhere, "rabbit")
    indexing.catch_up()
    return dict(zip(NAMES, (titled, first, late, early, full, elsewhere), strict=True))


def names(family: dict[str, Session], found: search.Found) -> set[str]:
    shown = set(found.sessions.values_list("pk", flat=True))
    return {name for name, session in family.items() if session.pk in shown}


SHOWING = {"titled", "first", "forked late", "full"}


@pytest.fixture(params=["at once", "a few places at a time", "among the newest first", "range by range"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the databases come to look for a word; each has ways of its own, and all have to find the same."""
    if request.param == "a few places at a time":
        monkeypatch.setattr(search_on_sqlite, "PLACES_A_LOOK", 3)
        monkeypatch.setattr(search_on_sqlite, "LOOKS", 20)
    if request.param == "among the newest first":
        monkeypatch.setattr(search_on_postgresql, "COMMON_PLACES", 0)
        monkeypatch.setattr(search_on_postgresql, "NEWEST_DOCUMENTS", 4)
    if request.param == "range by range":
        monkeypatch.setattr(search_on_postgresql, "COMMON_PLACES", 0)
        monkeypatch.setattr(search_on_postgresql, "PLACES_A_RANGE", 1)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("text", ["rabbit", "rab", "rabbit rabbits"])
def test_a_log_full_of_a_word_hides_no_other(people: People, family: dict[str, Session], text: str) -> None:
    found = search.find(people.member, text)
    assert names(family, found) == SHOWING if text != "rabbit rabbits" else {"full"}
    assert not found.truncated


@pytest.mark.usefixtures("way")
def test_a_hit_is_the_first_place_a_session_shows(people: People, family: dict[str, Session]) -> None:
    found = search.find(people.member, "rabbit")
    sessions = [family[name] for name in ("titled", "first", "full", "forked late")]
    assert [hit.seq for hit in found.hits(sessions)] == [None, 2, 5, 5]


def test_where_the_newest_are_enough_the_answer_says_that_there_is_more(
    people: People, family: dict[str, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_on_sqlite, "ENOUGH_LOGS", 1)
    monkeypatch.setattr(search_on_postgresql, "ENOUGH_LOGS", 1)
    # So that the look ends in the log of the first; what may be only a part of a log is left out.
    monkeypatch.setattr(search_on_sqlite, "PLACES_A_LOOK", 10)
    monkeypatch.setattr(search_on_postgresql, "COMMON_PLACES", 0)
    found = search.find(people.member, "rabbit")
    assert found.truncated
    assert {"full", "forked late"} <= names(family, found) <= SHOWING - {"titled"}
    assert [hit.seq for hit in found.hits([family["full"]])] == [5]


def test_more_logs_than_are_wanted_are_said_to_be_more(
    people: People, family: dict[str, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_LOGS", 2)
    found = search.find(people.member, "rabbit")
    assert found.truncated
    assert names(family, found) < SHOWING
    monkeypatch.setattr(search, "MOST_LOGS", 3)
    assert not search.find(people.member, "rabbit").truncated

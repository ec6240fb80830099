"""Records as large as files: a page reads a bounded amount of them, and each has a page of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions import history
from sessions.history import EventView
from sessions.pages import pieces, timeline
from tests.agents.sample_history import Talk, answer, home_of, imported
from tests.pages.support import links, session_page, tags, words

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.conftest import People

pytestmark = pytest.mark.django_db(transaction=True)
LARGE = 400_000


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[EventView]:
    """Every event that a page reads."""
    found: list[EventView] = []
    events = history.events

    def recorded(*args: object, **options: object) -> list[EventView]:
        got = events(*args, **options)  # type: ignore[arg-type]
        found.extend(got)
        return got

    monkeypatch.setattr(history, "events", recorded)
    return found


def bytes_of(events: list[EventView]) -> int:
    return sum(len(str(event.payload)) for event in events)


def large(number: int) -> str:
    return f"part {number} " + "x" * LARGE


@pytest.fixture
def session(people: People) -> Session:
    """Twelve turns whose answers are four megabytes together."""
    session = imported(home_of(people.workspace), "Large answers")
    talker = Talk(session)
    for number in range(1, 13):
        talker.say(f"Question {number}", answer(large(number)))
    session.refresh_from_db()
    return session


def test_a_page_ends_where_it_would_be_too_large(reader: Client, session: Session, read: list[EventView]) -> None:
    asked: list[str] = []
    following = [""]
    while following:
        del read[:]
        page = reader.get(session_page(session) + following[0])
        assert bytes_of(read) < timeline.BYTES_PER_PAGE + LARGE
        asked = re.findall(r"Question \d+", words(page)) + asked
        following = [link for link in links(page) if link.startswith("?before=")][:1]
    assert list(dict.fromkeys(asked)) == [f"Question {number}" for number in range(1, 13)]


def test_the_middle_of_a_large_turn_is_on_its_own_page(reader: Client, people: People, read: list[EventView]) -> None:
    session = imported(home_of(people.workspace), "A large turn")
    Talk(session).say("Work", *(answer(large(number)) for number in range(12)))
    page = reader.get(session_page(session))
    assert bytes_of(read) < pieces.HEAD_BYTES + pieces.TAIL_BYTES + 2 * LARGE
    assert "part 0 " in words(page)
    assert "part 11 " in words(page)
    assert "more records of this turn" in words(page)
    found: list[str] = []
    following = [""]
    while following:
        del read[:]
        part = reader.get(reverse("sessions:turn", args=[session.pk, 1]) + following[0])
        assert bytes_of(read) < 1_500_000 + LARGE
        found += re.findall(r"part \d+ ", words(part))
        following = [str(attrs["href"]) for attrs in tags(part, "a") if attrs.get("rel") == "next"]
    assert found == [f"part {number} " for number in range(12)]


def test_a_single_record_of_any_size_is_shown(reader: Client, people: People) -> None:
    session = imported(home_of(people.workspace), "One large record")
    Talk(session).say("Work", answer("y" * 3_000_000))
    assert "Work" in words(reader.get(session_page(session)))


def test_sizes_cost_a_page_no_query_for_each_turn(reader: Client, people: People) -> None:
    session = imported(home_of(people.workspace), "Many short turns")
    talker = Talk(session)
    for number in range(60):
        talker.say(f"Question {number}", answer("Yes."))
    reader.get(session_page(session))
    with CaptureQueriesContext(connection) as queries:
        reader.get(session_page(session))
    sizes = [query for query in queries.captured_queries if re.search("(OCTET_)?LENGTH\\(", query["sql"])]
    assert 1 <= len(sizes) <= timeline.TURNS_PER_PAGE / timeline.MEASURED_AT_ONCE

"""The session page: who said what, what is folded, where it continues from, and its pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.urls import reverse

from sessions import store
from sessions.choices import EventKind
from sessions.models import Session, SessionSync
from sessions.pages import pieces
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.agents.sample_history import OUTPUT, Talk, answer, conversation, home_of, imported, sample, tool
from tests.pages.support import all_tags, html, links, session_page, tags, words

if TYPE_CHECKING:
    from tests.conftest import People

CONTINUED = "Continued from"


def test_turns_are_articles_named_by_their_number_in_one_ordered_list(reader: Client, talk: Session) -> None:
    page = reader.get(session_page(talk))
    articles = [attrs["id"] for attrs in tags(page, "article")]
    assert articles == [f"turn-{number}" for number in range(1, 9)]
    assert [attrs["id"] for attrs in tags(page, "ol") if "id" in attrs] == ["turns"]


def test_who_speaks_is_said_in_words(reader: Client, talk: Session) -> None:
    page = words(reader.get(session_page(talk)))
    assert "You The test `test_rows` fails about once in ten runs." in page
    assert "Agent Done: 100 of 100 runs passed." in page
    assert "Tool: shell pytest tests/test_import.py -x -q" in page


def test_an_agents_words_are_rendered_and_the_persons_are_left_as_typed(reader: Client, talk: Session) -> None:
    source = html(reader.get(session_page(talk)))
    assert "<strong>the same</strong>" in source
    assert '<h4 class="level-1">What happens</h4>' in source
    assert '<span class="k">def</span>' in source
    assert "`test_rows`" in source


def test_tools_reasoning_and_context_are_folded(reader: Client, talk: Session) -> None:
    page = reader.get(session_page(talk))
    folds = [attrs for attrs in tags(page, "details") if "fold" in (attrs.get("class") or "")]
    assert len(folds) == 6
    assert not any("open" in attrs for attrs in folds)


def test_a_tool_that_failed_says_so_without_being_opened(reader: Client, talk: Session) -> None:
    assert "git log --oneline -5 exit 128" in words(reader.get(session_page(talk)))


def test_a_long_output_is_cut_and_leads_to_the_whole(reader: Client, people: People) -> None:
    session = imported(home_of(people.workspace), "Long")
    Talk(session).say("Go", *tool("shell", {"command": "seq"}, OUTPUT * 20))
    page = reader.get(session_page(session))
    record = next(link for link in links(page) if "/records/" in link)
    assert "Show all (" in words(page)
    assert OUTPUT * 20 not in html(page)
    assert words(reader.get(record)).count("test_row_119 PASSED") == 20


def test_outcomes_that_are_not_completed_are_said(reader: Client, talk: Session) -> None:
    page = words(reader.get(session_page(talk)))
    assert "Interrupted" in page
    assert "Failed" in page


def test_a_compaction_is_marked(reader: Client, talk: Session) -> None:
    assert "The conversation was compacted here, by itself" in words(reader.get(session_page(talk)))


def test_an_open_turn_is_shown_as_running(reader: Client, people: People) -> None:
    running = sample(people.workspace)["running"]
    page = words(reader.get(session_page(running)))
    assert "Running" in page.split("Turn 2")[1]


def test_the_header_says_what_it_is_and_how_to_go_on(reader: Client, talk: Session) -> None:
    page = words(reader.get(session_page(talk)))
    for fact in ("Codex 0.163.0", "/home/sam/work/importer", "gpt-5.2-codex", str(talk.pk)):
        assert fact in page
    assert f"resume {talk.provider_session_id}" in page


def test_damaged_lines_are_named(reader: Client, people: People) -> None:
    damaged = sample(people.workspace)["damaged"]
    page = words(reader.get(session_page(damaged)))
    assert "2 lines of the transcript could not be read." in page
    assert "Line 17: not a record, or half of one" in page
    assert "Line 40: torn" in page


def test_a_missing_transcript_is_said_and_the_history_stays(reader: Client, talk: Session) -> None:
    SessionSync.objects.filter(session=talk).update(state="missing")
    page = words(reader.get(session_page(talk)))
    assert "transcript is gone" in page
    assert "Done: 100 of 100 runs passed." in page


def test_opening_a_session_that_is_not_imported_asks_for_it_and_shows_how_far_it_is(
    reader: Client, people: People
) -> None:
    from forkhost.kit import clock

    listed = sample(people.workspace)["listed"]
    SessionSync.objects.filter(session=listed).update(stamp_seen="2", next_run_at=clock.now())
    page = reader.get(session_page(listed))
    assert "3.2 MB of 11.4 MB" in words(page)
    assert SessionSync.objects.get(session=listed).wanted_at is not None
    assert reader.get(reverse("sessions:progress", args=[listed.pk])).status_code == 200
    SessionSync.objects.filter(session=listed).update(state="imported", stamp_imported="2")
    assert reader.get(reverse("sessions:progress", args=[listed.pk]))["HX-Refresh"] == "true"


def test_a_session_that_can_be_forked_nowhere_says_why_once_and_has_no_controls(reader: Client, people: People) -> None:
    damaged = sample(people.workspace)["damaged"]
    page = reader.get(session_page(damaged))
    assert words(page).count("No turn of this session can be forked.") == 1
    assert not [link for link in links(page) if "/fork/" in link]
    assert "Fork from turn" not in words(page)


# --------------------------------------------------------------------------------------------------------------------
# Forks


@pytest.fixture
def child(talk: Session) -> Session:
    """A fork through turn 2 with one turn of its own."""
    boundary = 13
    made = store.fork(talk, boundary)
    Talk(made).say("Another way", answer("Indeed."))
    made.refresh_from_db()
    return made


def test_the_seam_stands_right_after_the_boundary_turn(reader: Client, talk: Session, child: Session) -> None:
    page = words(reader.get(session_page(child)))
    assert page.count(CONTINUED) == 1
    before, after = page.split(CONTINUED)
    assert "Done: 100 of 100 runs passed." in before
    assert "Turn 3" not in before
    assert after.strip().startswith("Fix the flaky import test, turn 2")
    assert "Another way" in after


def test_the_seam_is_at_no_other_place_than_its_turn(reader: Client, talk: Session, child: Session) -> None:
    talker = Talk(child)
    for number in range(40):
        talker.say(f"More {number}", answer("Yes."))
    child.refresh_from_db()
    newest = reader.get(session_page(child))
    assert CONTINUED not in words(newest)
    assert CONTINUED in words(reader.get(session_page(child, turn=2)))
    assert CONTINUED not in words(reader.get(session_page(child, **{"from": 4})))


def test_there_is_no_seam_on_the_source(reader: Client, talk: Session, child: Session) -> None:
    assert CONTINUED not in words(reader.get(session_page(talk)))


def test_standalone_records_of_the_source_stand_before_the_seam(reader: Client, people: People) -> None:
    source = imported(home_of(people.workspace), "With a note")
    talker = Talk(source)
    talker.say("One", answer("First."))
    talker.note(EventKind.NOTE, "a note after the turn")
    source.refresh_from_db()
    child = store.fork(source, source.last_seq)
    Talk(child).note(EventKind.NOTE, "a note of the fork")
    page = words(reader.get(session_page(child)))
    assert page.index("a note after the turn") < page.index(CONTINUED) < page.index("a note of the fork")


def test_inherited_turns_lead_to_the_same_turn_of_the_source(reader: Client, talk: Session, child: Session) -> None:
    page = reader.get(session_page(child))
    assert words(page).count("from source") == 2
    assert f"{session_page(talk, turn=1)}#turn-1" in links(page)


def test_the_family_leads_home_and_nothing_at_the_top_does(reader: Client, talk: Session, child: Session) -> None:
    page = reader.get(session_page(child))
    source = html(page)
    assert session_page(talk) not in source[: source.index('<ol class="turns"')]
    family = source[source.index('<ul class="family"') :]
    assert session_page(talk) in family
    assert 'aria-current="page"' in family


def test_a_child_outlives_its_source_and_says_so(reader: Client, talk: Session, child: Session) -> None:
    store.tombstone(talk.pk)
    page = words(reader.get(session_page(child)))
    assert "Continued from a session that was deleted, turn 2" in page
    assert "Done: 100 of 100 runs passed." in page


# --------------------------------------------------------------------------------------------------------------------
# Pages, and the live end


def test_pages_go_back_and_forth_without_a_gap_or_a_repetition(reader: Client, people: People) -> None:
    long = conversation(home_of(people.workspace), turns=90)
    seen: list[int] = []
    earlier = [""]
    while earlier:
        page = reader.get(session_page(long) + earlier[0])
        shown = [int(str(attrs["id"]).removeprefix("turn-")) for attrs in tags(page, "article")]
        seen = shown + seen
        earlier = [link for link in links(page) if link.startswith("?before=")]
    assert seen == list(range(1, 96))
    later = [link for link in links(page) if link.startswith("?from=") and link != "?from=1"]
    following = reader.get(session_page(long) + later[0])
    first = tags(following, "article")[0]["id"]
    assert first == f"turn-{shown[-1] + 1}"


@pytest.mark.parametrize("wanted", [1, 17, 50, 95])
def test_a_turns_address_shows_that_turn(reader: Client, people: People, wanted: int) -> None:
    long = conversation(home_of(people.workspace), turns=90)
    page = reader.get(session_page(long, turn=wanted))
    assert f"turn-{wanted}" in [attrs["id"] for attrs in tags(page, "article")]


@pytest.mark.parametrize(
    "query", ["?turn=0", "?turn=99999", "?turn=x", "?before=1", "?from=99999", "?turn=１", "?before=-3"]
)
def test_an_odd_address_still_answers(reader: Client, talk: Session, query: str) -> None:
    assert reader.get(session_page(talk) + query).status_code == 200


def test_a_page_is_bounded_by_records(reader: Client, people: People) -> None:
    session = imported(home_of(people.workspace), "A long turn")
    talker = Talk(session)
    talker.say("Short", answer("Yes."))
    talker.say("Work", *(answer(f"step {number}") for number in range(500)))
    page = reader.get(session_page(session))
    said = re.findall(r"step \d+", words(page))
    assert len(said) <= pieces.HEAD_EVENTS + pieces.TAIL_EVENTS
    assert (said[0], said[-1]) == ("step 0", "step 499")
    assert "more records of this turn" in words(page)
    whole = reverse("sessions:turn", args=[session.pk, 2])
    found: list[str] = []
    following = [""]
    while following:
        part = reader.get(whole + following[0])
        found += re.findall(r"step \d+", words(part))
        following = [str(attrs["href"]) for attrs in tags(part, "a") if attrs.get("rel") == "next"]
    assert found == [f"step {number}" for number in range(500)]


def test_the_live_end_answers_with_nothing_until_there_is_something(reader: Client, talk: Session) -> None:
    address = _tail_of(reader, talk)
    assert reader.get(address).status_code == 204
    Talk(talk).say("A new question", answer("A new answer."))
    fresh = reader.get(address)
    assert [attrs["id"] for attrs in tags(fresh, "article")] == ["turn-9", "turn-8"]
    assert "A new answer." in words(fresh)
    assert reader.get(_poll(fresh)).status_code == 204


def test_an_open_turn_is_sent_again_as_it_grows(reader: Client, people: People) -> None:
    session = imported(home_of(people.workspace), "Live")
    store.append(session.pk, [TurnStart(1, "Go"), NewEvent("message.user", 2, {"text": "Go"})])
    session.refresh_from_db()
    address = _tail_of(reader, session)
    store.append(session.pk, [NewEvent("message.assistant", 3, {"text": "Done."}), TurnEnd(4, "completed")])
    fresh = reader.get(address)
    assert ("li", "true") in [(tag, attrs.get("hx-swap-oob")) for tag, attrs in all_tags(fresh)]
    assert "Done." in words(fresh)
    assert "Completed" in words(fresh)


def test_a_rewound_history_is_loaded_anew(reader: Client, talk: Session) -> None:
    address = _tail_of(reader, talk)
    store.rewind(talk.pk, 13)
    assert reader.get(address)["HX-Refresh"] == "true"


def test_only_the_newest_page_is_live(reader: Client, people: People) -> None:
    long = conversation(home_of(people.workspace), turns=90)
    assert 'id="tail"' in html(reader.get(session_page(long)))
    assert 'id="tail"' not in html(reader.get(session_page(long, **{"from": 1})))


def _tail_of(reader: Client, session: Session) -> str:
    return _poll(reader.get(session_page(session)))


def _poll(response: object) -> str:
    return next(str(attrs["hx-get"]) for attrs in tags(response, "li") if attrs.get("id") == "tail")

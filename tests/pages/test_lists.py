"""The lists: sessions with their filters, forks by state, runners, and two sessions side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from django.urls import reverse

from forkhost.kit.clock import HeldClock
from operations.choices import OperationStatus
from sessions import indexing, runners, search, store
from sessions.models import Home, Session, Workspace
from sessions.workspaces import join
from tests.agents.sample_history import Talk, answer, home_of, imported, sample
from tests.operations.support import World, through
from tests.pages.support import html, links, operation_page, session_page, tags, words

if TYPE_CHECKING:
    from tests.conftest import People

SESSIONS = "/"


def titles(page: object) -> list[str]:
    """The sessions listed, in order, by their link."""
    return [str(attrs["href"]) for attrs in tags(page, "a") if "data-stop-focus" in attrs]


@pytest.mark.parametrize("address", ["/?q=rabbit", "/?q=rabbit&provider=nobody", "/search/?q=rabbit"])
def test_it_is_said_when_not_all_places_were_looked_at(
    reader: Client, people: People, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    home = home_of(people.workspace)
    for number in range(2):
        imported(home, f"Rabbit {number}")
    indexing.catch_up()
    said = "the oldest places were not looked at"
    assert said not in words(reader.get(address))
    monkeypatch.setattr(search, "MOST_LOGS", 1)
    assert said in words(reader.get(address))


def test_sessions_are_listed_by_their_last_activity(reader: Client, people: People) -> None:
    home = home_of(people.workspace)
    made = [imported(home, f"Session {number}", updated_at_unix_ms=1_000 * number) for number in (2, 3, 1)]
    expected = [session_page(session) for session in (made[1], made[0], made[2])]
    assert titles(reader.get(SESSIONS)) == expected


def test_a_row_says_agent_folder_turns_and_what_is_going_on(reader: Client, people: People) -> None:
    sample(people.workspace)
    page = words(reader.get(SESSIONS))
    assert "Write the release notes Running" in page
    assert "Codex /home/sam/work/site" in page
    assert "5 turns" in page
    assert "importing" in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "flaky"}, {"source"}),
        ({"q": "FLAKY import"}, {"source"}),
        ({"q": "hundred times"}, {"source"}),
        ({"q": "slow since"}, {"listed"}),
        ({"cwd": "/home/sam/work/site"}, {"running"}),
        ({"cwd": "/home/sam/work"}, {"source", "running", "damaged", "listed"}),
        ({"provider": "codex"}, {"source", "running", "damaged", "listed"}),
        ({"provider": "claude"}, set()),
        ({"state": "running"}, {"running"}),
        ({"state": "importing"}, {"listed"}),
        ({"state": "forked"}, set()),
        ({"state": "no such state"}, {"source", "running", "damaged", "listed"}),
        ({"q": "\x00"}, set()),
        ({"q": "100% _x"}, set()),
    ],
)
def test_filters_narrow_the_list(reader: Client, people: People, query: dict[str, str], found: set[str]) -> None:
    made = sample(people.workspace)
    indexing.catch_up()
    page = reader.get(SESSIONS, query)
    shown = {
        name for name, session in made.items() if any(link.startswith(session_page(session)) for link in links(page))
    }
    assert shown == found


def test_a_session_is_found_by_its_id_in_any_case(reader: Client, people: People) -> None:
    made = sample(people.workspace)["source"]
    assert titles(reader.get(SESSIONS, {"q": str(made.pk).upper()})) == [session_page(made)]
    assert titles(reader.get(SESSIONS, {"q": made.provider_session_id})) == [session_page(made)]


def test_a_hit_in_a_turn_leads_to_that_turn(reader: Client, people: People) -> None:
    made = sample(people.workspace)["source"]
    indexing.catch_up()
    assert f"{session_page(made, turn=2)}#turn-2" in titles(reader.get(SESSIONS, {"q": "hundred times"}))


def test_nothing_yet_and_nothing_matches_are_different_sentences(reader: Client, people: People) -> None:
    assert "No sessions yet" in words(reader.get(SESSIONS))
    sample(people.workspace)
    page = reader.get(SESSIONS, {"q": "nothing like this"})
    assert "Nothing matches" in words(page)
    assert "Clear the filters" in words(page)


def test_somebody_without_a_workspace_is_told_so(people: People) -> None:
    from django.contrib.auth.models import User

    reader = Client()
    reader.force_login(User.objects.create_user("lonely"))
    assert "You belong to no workspace yet" in words(reader.get(SESSIONS))


def test_pages_of_the_list_hold_every_session_once_also_when_they_are_of_the_same_moment(
    reader: Client, people: People
) -> None:
    home = home_of(people.workspace)
    made = {session_page(imported(home, f"S{number}", updated_at_unix_ms=5)) for number in range(70)}
    seen: list[str] = []
    following = [""]
    while following:
        page = reader.get(SESSIONS + following[0])
        seen += titles(page)
        following = [link for link in links(page) if link.startswith("?cursor=")]
    assert len(seen) == 70
    assert set(seen) == made


@pytest.mark.parametrize("cursor", ["x", "e30", "W10", "WzEsIngiXQ", "é", "WzFlNDAwLCAxXQ"])
def test_a_cursor_that_cannot_be_read_starts_at_the_top(reader: Client, people: People, cursor: str) -> None:
    made = sample(people.workspace)
    assert len(titles(reader.get(SESSIONS, {"cursor": cursor}))) == len(made)


def test_viewing_changes_no_activity(reader: Client, talk: Session) -> None:
    before = talk.updated_at_unix_ms
    reader.get(session_page(talk))
    talk.refresh_from_db()
    assert talk.updated_at_unix_ms == before


def test_a_member_of_two_workspaces_chooses_between_them(reader: Client, people: People) -> None:
    join(people.member, people.other_workspace)
    mine = imported(home_of(people.workspace), "In here")
    other = imported(home_of(people.other_workspace, name="other"), "Over there")
    assert titles(reader.get(SESSIONS, {"workspace": "elsewhere"})) == [session_page(other)]
    assert titles(reader.get(SESSIONS, {"workspace": "here"})) == [session_page(mine)]


def test_a_fork_is_marked_and_listed_at_once(reader: Client, world: World) -> None:
    operation = world.fork(point=through(world.source, 2))
    page = reader.get(SESSIONS)
    assert reverse("sessions:detail", args=[operation.target_session_id]) in titles(page)
    assert "fork, from turn 2" in words(page)


def test_the_list_costs_the_same_number_of_queries_whatever_it_shows(
    reader: Client, people: People, django_assert_max_num_queries: Any
) -> None:
    home = home_of(people.workspace)
    for number in range(30):
        imported(home, f"S{number}")
    with django_assert_max_num_queries(10):
        reader.get(SESSIONS)


# --------------------------------------------------------------------------------------------------------------------
# Forks


@pytest.fixture
def four(world: World) -> dict[str, str]:
    """A fork in each state; the address of each."""
    world.agent.script("accept", "reject", "lose")
    return {
        "committed": operation_page(world.fork(title="c")),
        "failed": operation_page(world.fork(title="f")),
        "unknown": operation_page(world.fork(title="u")),
        "pending": operation_page(world.prepare(title="p")),
    }


def test_forks_are_listed_newest_first_with_their_words(reader: Client, four: dict[str, str]) -> None:
    page = reader.get(reverse("operations:operations"))
    assert titles(page) == [four[name] for name in ("pending", "unknown", "failed", "committed")]
    for word in ("Forking…", "Outcome unknown", "Fork failed", "Forked"):
        assert word in words(page)


@pytest.mark.parametrize("state", ["pending", "unknown", "failed", "committed"])
def test_each_state_has_a_list_of_its_own(reader: Client, four: dict[str, str], state: str) -> None:
    assert titles(reader.get(reverse("operations:operations"), {"state": state})) == [four[state]]


def test_an_empty_state_says_so(reader: Client, world: World) -> None:
    page = reader.get(reverse("operations:operations"), {"state": "unknown"})
    assert "Every fork’s outcome is known." in words(page)
    assert "No forks yet" in words(reader.get(reverse("operations:operations")))


def test_the_list_of_forks_goes_on_by_key(reader: Client, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from operations.pages import lists

    monkeypatch.setattr(lists, "PAGE_SIZE", 2)
    for _ in range(5):
        assert world.fork().status == OperationStatus.COMMITTED
    seen: list[str] = []
    following = [""]
    while following:
        page = reader.get(reverse("operations:operations") + following[0])
        seen += titles(page)
        following = [link for link in links(page) if link.startswith("?before=")]
    assert len(seen) == len(set(seen)) == 5


# --------------------------------------------------------------------------------------------------------------------
# Runners


def test_runners_say_what_their_agents_proved(reader: Client, people: People) -> None:
    home_of(people.workspace)
    page = words(reader.get(reverse("operations:runners")))
    assert "desk Worker alive" in page
    assert "Can fork from any settled turn. Each fork carries our mark" in page
    assert "app-server 0.163.0" in page


def test_a_runner_whose_worker_was_not_seen_lately_says_since_when(
    reader: Client, people: People, held_clock: HeldClock
) -> None:
    home_of(people.workspace)
    held_clock.advance(600)
    assert "No worker since 2026-07-29 12:00 UTC" in words(reader.get(reverse("operations:runners")))


def test_an_agent_that_cannot_fork_or_was_not_checked_says_so(reader: Client, world: World) -> None:
    world.agent.configure(points="unsupported")
    world.attest()
    assert "Cannot fork. This version cannot fork." in words(reader.get(reverse("operations:runners")))
    Home.objects.update(attestation=None)
    assert "Not checked yet." in words(reader.get(reverse("operations:runners")))


def test_without_a_runner_the_page_says_how_to_start_one(reader: Client) -> None:
    assert "No runner yet" in words(reader.get(reverse("operations:runners")))


# --------------------------------------------------------------------------------------------------------------------
# Compare


def compare(reader: Client, a: Session, b: Session) -> Any:
    """Their page."""
    return reader.get(reverse("operations:compare", query={"a": str(a.pk), "b": str(b.pk)}))


def test_two_branches_stand_side_by_side_from_where_they_part(reader: Client, talk: Session) -> None:
    child = store.fork(talk, 13)
    Talk(child).say("Another way", answer("Indeed."))
    child.refresh_from_db()
    page = words(compare(reader, talk, child))
    assert "Both begin with the same 2 turns." in page
    assert "Now the same for the export." in page
    assert "Another way" in page
    assert "Done: 100 of 100 runs passed." not in page


def test_two_forks_of_one_source_share_what_both_inherited(reader: Client, talk: Session) -> None:
    one, other = store.fork(talk, 13), store.fork(talk, 17)
    page = words(compare(reader, one, other))
    assert "Both begin with the same 2 turns." in page
    assert "Nothing after the shared part" in page


def test_sessions_of_different_families_share_nothing(reader: Client, people: People, talk: Session) -> None:
    other = imported(home_of(people.workspace), "Another")
    assert "They belong to different families." in words(compare(reader, talk, other))


def test_a_comparison_with_nothing_is_not_found(reader: Client, talk: Session) -> None:
    assert reader.get(reverse("operations:compare", query={"a": str(talk.pk)})).status_code == 404
    assert reader.get(reverse("operations:compare", query={"a": "x", "b": "y"})).status_code == 404


def test_the_session_page_costs_a_bounded_number_of_queries(
    reader: Client, talk: Session, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(22):
        page = reader.get(session_page(talk))
    assert "Turn 8" in html(page)


def test_stored_attestations_alone_are_read(reader: Client, talk: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("a page started an agent")

    monkeypatch.setattr(runners, "attest", never)
    assert Workspace.objects.exists()
    assert reader.get(session_page(talk)).status_code == 200

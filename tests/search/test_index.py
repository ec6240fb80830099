"""The index: each event once however many show it, nothing of what a session does not show, nothing after a purge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sessions import indexing, search, store
from sessions.models import EventLog, SearchDocument, Session
from sessions.store import NewEvent, TurnEnd, TurnStart

if TYPE_CHECKING:
    from tests.conftest import People

AT = 1_790_000_000_000


def say(session: Session, text: str, *, kind: str = "message.assistant") -> None:
    payload = {"output": text} if kind == "tool.result" else {"text": text}
    store.append(session.pk, [TurnStart(AT), NewEvent(kind, AT, payload), TurnEnd(AT, "completed")])


def found(people: People, text: str) -> set[str]:
    indexing.catch_up()
    return {str(pk) for pk in search.find(people.member, text).sessions.values_list("pk", flat=True)}


pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session(hosted: Callable[..., Session]) -> Session:
    return hosted(turns=0, title="A title of its own")


@pytest.mark.parametrize("kind", ["message.user", "message.assistant", "tool.result", "note", "context"])
def test_what_was_said_and_done_is_found(people: People, session: Session, kind: str) -> None:
    say(session, "Der Zähler läuft über: src/näher.py:12", kind=kind)
    for text in ("zahler", "LÄUFT über", "naher py 12", "src/näher.py"):
        assert found(people, text) == {str(session.pk)}, text


def test_what_an_agent_only_thought_is_not_looked_through(people: People, session: Session) -> None:
    say(session, "perhaps a unicorn", kind="reasoning")
    assert found(people, "unicorn") == set()


def test_long_words_go_on_and_short_ones_do_not(people: People, session: Session) -> None:
    say(session, "go gopher")
    assert found(people, "goph") == {str(session.pk)}
    say(session, "golden")
    assert found(people, "gol") == {str(session.pk)}
    assert found(people, "gp") == found(people, "ophe") == set()


def test_scripts_without_spaces_are_found_by_any_part(people: People, session: Session) -> None:
    say(session, "検索エンジンを直す")
    assert found(people, "エンジン") == {str(session.pk)}


def test_forks_share_the_words_of_what_they_share(people: People, session: Session) -> None:
    for number in range(4):
        say(session, f"common {number}")
    indexing.catch_up()
    before = SearchDocument.objects.count()
    children = [store.fork(session.pk) for _ in range(3)]
    assert found(people, "common 2") == {str(pk) for pk in (session.pk, *(child.pk for child in children))}
    # Their titles alone.
    assert SearchDocument.objects.count() == before + len(children)


def test_a_fork_is_not_found_by_what_came_after_it(people: People, session: Session) -> None:
    say(session, "before")
    child = store.fork(session.pk)
    say(session, "zebra")
    say(child, "giraffe")
    assert found(people, "before") == {str(session.pk), str(child.pk)}
    assert found(people, "zebra") == {str(session.pk)}
    assert found(people, "giraffe") == {str(child.pk)}


def test_a_renamed_session_is_found_by_its_new_title_alone(people: People, session: Session) -> None:
    assert found(people, "own") == {str(session.pk)}
    store.rename(session.pk, "Renamed")
    assert found(people, "renamed") == {str(session.pk)}
    assert found(people, "own") == set()


def test_titles_are_found_after_a_rewind(people: People, session: Session) -> None:
    say(session, "kept")
    last = Session.objects.get(pk=session.pk).last_seq
    say(session, "zebra")
    store.rewind(session.pk, last)
    assert found(people, "title") == found(people, "kept") == {str(session.pk)}
    assert found(people, "zebra") == set()
    say(session, "again")
    assert found(people, "again") == {str(session.pk)}


def test_a_purge_leaves_only_what_others_show(people: People, session: Session) -> None:
    say(session, "kept")
    child = store.fork(session.pk)
    say(session, "zebra")
    assert found(people, "zebra") == {str(session.pk)}
    store.purge(session.pk)
    assert found(people, "kept") == {str(child.pk)}
    assert not SearchDocument.objects.filter(words__contains="zebra").exists()
    store.purge(child.pk)
    assert SearchDocument.objects.count() == 0


def test_an_index_that_comes_late_writes_nothing_of_what_was_purged(
    people: People, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(session, "kept")
    child = store.fork(session.pk)
    say(session, "zebra")
    read = indexing._read

    def read_then_purged(*args: Any) -> Any:
        batch = read(*args)
        if Session.objects.filter(pk=session.pk).exists():
            store.purge(session.pk)
        return batch

    monkeypatch.setattr(indexing, "_read", read_then_purged)
    indexing.catch_up()
    assert not SearchDocument.objects.filter(words__contains="zebra").exists()
    assert found(people, "kept") == {str(child.pk)}


def test_two_workers_index_an_event_once(people: People, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, "once")
    read = indexing._read

    def read_then_overtaken(*args: Any) -> Any:
        monkeypatch.setattr(indexing, "_read", read)
        batch = read(*args)
        indexing.catch_up()
        return batch

    monkeypatch.setattr(indexing, "_read", read_then_overtaken)
    assert not indexing.step()
    assert found(people, "once") == {str(session.pk)}
    assert SearchDocument.objects.filter(words__contains="once").count() == 1


def test_a_long_log_is_indexed_in_short_steps(
    people: People, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "EVENTS_A_STEP", 3)
    monkeypatch.setattr(indexing, "SEQS_A_STEP", 4)
    for number in range(6):
        say(session, f"word{number}x")
    fork = store.fork(session.pk)
    say(fork, "beyond")
    steps = 0
    while indexing.step():
        steps += 1
    assert steps > 3
    assert all(found(people, f"word{number}x") == {str(session.pk), str(fork.pk)} for number in range(6))
    assert found(people, "beyond") == {str(fork.pk)}
    assert not Session.objects.filter(search_due=True).exists()
    assert EventLog.objects.get(pk=session.log_id).searched_seq == 18


@pytest.mark.parametrize(
    "text", ['"', "a OR b", "NEAR(a b)", "words:x", "x*", "(", "-x", "^x", "'x':*", "x & !y | z", "\\", "a\x00b", "%_"]
)
def test_what_people_type_is_never_a_query_language(people: People, session: Session, text: str) -> None:
    say(session, "nothing of the kind")
    assert found(people, text) == set()


def test_a_workspaces_own_word_opens_no_other_workspace(
    people: People, hosted: Callable[..., Session], session: Session
) -> None:
    elsewhere = hosted(turns=0, workspace=people.other_workspace, created_by=people.stranger)
    say(elsewhere, f"workspace{people.workspace.pk.hex} rabbit")
    assert found(people, "rabbit") == set()

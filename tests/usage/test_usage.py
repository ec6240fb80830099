"""Usage: what is recorded is told, own and inherited apart, and what forks share is counted once in a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from sessions import store, usage
from sessions.models import Session
from sessions.store import TurnEnd, TurnStart
from tests.api.support import Caller

if TYPE_CHECKING:
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db(transaction=True)

AT = 1_790_000_000_000


def use(session: Session, **usage: Any) -> None:
    store.append(session.pk, [TurnStart(AT), TurnEnd(AT, "completed", usage=usage)])


@pytest.fixture
def family(hosted: Callable[..., Session]) -> tuple[Session, Session]:
    """A source of two turns and one more, and its fork with one of its own."""
    source = hosted(turns=0)
    use(source, inputTokens=1000, outputTokens=10, costUsd=0.5)
    use(source, inputTokens=2000)
    child = store.fork(source.pk)
    use(source, inputTokens=40)
    use(child, inputTokens=7)
    return source, child


def test_each_turn_tells_what_it_used(api: Caller, paths: Paths, family: tuple[Session, Session]) -> None:
    turns = api.get(paths.session(family[1].pk, "turns")).json()["items"]
    assert [turn["usage"].get("inputTokens") for turn in turns] == [1000, 2000, 7]


def test_own_and_inherited_are_told_apart(api: Caller, paths: Paths, family: tuple[Session, Session]) -> None:
    source, child = family
    assert api.get(paths.session(source.pk)).json()["usage"] == {
        "own": {"costUsd": 0.5, "inputTokens": 3040, "outputTokens": 10},
        "inherited": {},
    }
    assert api.get(paths.session(child.pk)).json()["usage"] == {
        "own": {"inputTokens": 7},
        "inherited": {"costUsd": 0.5, "inputTokens": 3000, "outputTokens": 10},
    }


def test_a_family_counts_what_it_shares_once(api: Caller, paths: Paths, family: tuple[Session, Session]) -> None:
    source, child = family
    grandchild = store.fork(child.pk)
    use(grandchild, inputTokens=100_000)
    total = {"costUsd": 0.5, "inputTokens": 103_047, "outputTokens": 10}
    for session in (source, child, grandchild):
        assert api.get(paths.session(session.pk, "family")).json()["usage"] == total
    # What the source alone used goes with it; what a child shows stays.
    store.purge(source.pk)
    assert api.get(paths.session(child.pk, "family")).json()["usage"] == {**total, "inputTokens": 103_007}


def test_a_fork_that_starts_without_turns_shares_nothing(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    source = hosted(turns=0)
    store.append(source.pk, [store.NewEvent("context", AT, {"text": "standalone"})])
    child = store.fork(source.pk)
    use(source, inputTokens=5)
    use(child, inputTokens=6)
    store.purge(source.pk)
    assert api.get(paths.session(child.pk, "family")).json()["usage"] == {"inputTokens": 6}


@pytest.mark.parametrize("value", ["many", True, None, -1, 1e300, 10**30, {"a": 1}, [1]])
def test_what_is_no_number_is_not_added_up(
    api: Caller, paths: Paths, hosted: Callable[..., Session], value: Any
) -> None:
    session = hosted(turns=0)
    use(session, inputTokens=value, outputTokens=3)
    assert api.get(paths.session(session.pk)).json()["usage"]["own"] == {"outputTokens": 3}
    assert api.get(paths.session(session.pk, "turns")).json()["items"][0]["usage"] == {"outputTokens": 3}


def test_the_page_tells_it(client: Client, people: People, family: tuple[Session, Session]) -> None:
    client.force_login(people.member)
    page = client.get(f"/sessions/{family[1].pk}/").content.decode()
    assert "1,000 tokens in" in page
    assert "$0.5" in page
    assert "3,000 tokens in" in page
    assert "3,047 tokens in" in page


def test_a_long_log_is_added_up_block_by_block_and_each_block_once(
    hosted: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "_TURNS_A_BLOCK", 3)
    source = hosted(turns=0)
    for number in range(8):
        use(source, inputTokens=10**number)
    source.refresh_from_db()
    child = store.fork(source.pk)
    for _ in range(4):
        use(child, outputTokens=5)
    child.refresh_from_db()
    summed = usage._summed
    read: list[tuple[int, int]] = []

    def counted(ranges: Any) -> Any:
        read.extend((first, last) for _, first, last in ranges)
        return summed(ranges)

    monkeypatch.setattr(usage, "_summed", counted)
    for expected in ([(1, 3), (4, 6), (7, 8)], [(7, 8)]):
        del read[:]
        assert usage.of_session(source).own == {"inputTokens": 11_111_111}
        assert read == expected
    del read[:]
    assert usage.of_session(child) == usage.SessionUsage({"outputTokens": 20}, {"inputTokens": 11_111_111})
    assert sorted(read) == [(7, 8), (9, 11), (12, 12)]
    assert usage.of_family([source, child]) == {"inputTokens": 11_111_111, "outputTokens": 20}


def test_a_turn_that_is_open_is_added_when_it_settles(
    hosted: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "_TURNS_A_BLOCK", 1)
    session = hosted(turns=0)
    use(session, inputTokens=1)
    store.append(session.pk, [TurnStart(AT)])
    session.refresh_from_db()
    assert usage.of_session(session).own == {"inputTokens": 1}
    store.append(session.pk, [TurnEnd(AT, "completed", usage={"inputTokens": 2})])
    session.refresh_from_db()
    assert usage.of_session(session).own == {"inputTokens": 3}


def test_a_log_of_very_many_blocks_is_added_up_too(
    hosted: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite takes a thousand conditions in one statement, and a family may have more blocks than that."""
    monkeypatch.setattr(usage, "_TURNS_A_BLOCK", 1)
    session = hosted(turns=0)
    use(session, inputTokens=1)
    many = [(session.log_id, 1, 1)] + [(session.log_id, 1, 2)] * 1_200

    assert usage._totals(many) == {"inputTokens": 1_201}

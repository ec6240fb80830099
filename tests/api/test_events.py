"""Events: pages by seq, ids, and what an agent wrote kept as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db


def test_an_event_shows_every_member(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    session = hosted(turns=1)
    turn = api.get(paths.session(session.pk, "turns")).json()["items"][0]
    items = api.get(paths.session(session.pk, "events")).json()["items"]
    assert [item["kind"] for item in items] == ["turn.start", "message.user", "message.assistant", "turn.end"]
    assert [item["messageId"] is not None for item in items] == [False, True, True, False]
    assert items[2] == {
        "seq": 3,
        "messageId": items[2]["messageId"],
        "turnId": turn["id"],
        "kind": "message.assistant",
        "atUnixMs": turn["startedAtUnixMs"] + 1,
        "payload": {"text": "answer 1"},
        "inherited": False,
    }


@pytest.mark.parametrize("name", ["after", "cursor"])
def test_pages_go_through_all_events(api: Caller, paths: Paths, hosted: Callable[..., Session], name: str) -> None:
    path = paths.session(hosted(turns=3).pk, "events")
    seqs: list[int] = []
    query: dict[str, Any] = {"limit": 5}
    for _ in range(3):
        page = api.get(path, **query).json()
        seqs += [event["seq"] for event in page["items"]]
        query[name] = seqs[-1] if name == "after" else page["nextCursor"]
    assert seqs == list(range(1, 13))
    assert page["nextCursor"] is None


def test_after_the_end_is_nothing(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    path = paths.session(hosted(turns=1).pk, "events")
    for after in (4, 5, 2**53 - 1):
        assert api.get(path, after=after).json() == {"items": [], "nextCursor": None}


def pages(api: Caller, path: str, **query: Any) -> list[list[int]]:
    """The seqs of every page, by cursor."""
    found: list[list[int]] = []
    while not found or "cursor" in query:
        page = api.get(path, **query).json()
        found.append([event["seq"] for event in page["items"]])
        query = {name: value for name, value in query.items() if name == "limit"}
        if page["nextCursor"] is not None:
            query["cursor"] = page["nextCursor"]
    return found


def test_a_page_is_bounded_by_bytes_and_no_event_is_too_large_for_one(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    from sessions import store
    from sessions.store import NewEvent

    session = hosted(turns=0)
    sizes = [1_000, 5_000_000, 1_500_000, 1_500_000, 1_500_000, 1_000, 12_000_000, 12_000_000]
    store.append(session.pk, [NewEvent("note", 1_790_000_000_000, {"text": "x" * size}) for size in sizes])
    path = paths.session(session.pk, "events")
    assert pages(api, path) == [[1], [2], [3, 4], [5, 6], [7], [8]]
    assert pages(api, path, limit=1) == [[seq] for seq in range(1, 9)]
    assert [event["seq"] for event in api.get(path, after=6).json()["items"]] == [7]


def test_bytes_bound_a_page_over_what_a_fork_shares(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import store
    from sessions.store import NewEvent

    large = [NewEvent("note", 1_790_000_000_000, {"text": "x" * 1_500_000}) for _ in range(3)]
    source = hosted(turns=0)
    store.append(source.pk, large)
    child = store.fork(source.pk)
    store.append(child.pk, large)
    assert pages(api, paths.session(child.pk, "events")) == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("after", ["-1", "1.5", "1e3", "", "x", str(2**53), "9" * 30])
def test_after_is_a_whole_number(api: Caller, paths: Paths, hosted: Callable[..., Session], after: str) -> None:
    assert_problem(api.get(paths.session(hosted(turns=0).pk, "events"), after=after), 400, "invalid_request", "after")


def test_after_and_cursor_exclude_each_other(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    path = paths.session(hosted(turns=1).pk, "events")
    cursor = api.get(path, limit=1).json()["nextCursor"]
    assert_problem(api.get(path, after=1, cursor=cursor), 400, "invalid_request", "after")


def test_a_cursor_notices_a_rewind(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import store

    session = hosted(turns=2)
    cursor = api.get(paths.session(session.pk, "events"), limit=1).json()["nextCursor"]
    store.rewind(session.pk, 4)
    assert_problem(api.get(paths.session(session.pk, "events"), cursor=cursor), 409, "stale_session")


def test_what_an_agent_wrote_comes_back_as_it_was(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    path = paths.session(hosted(turns=0).pk, "events")
    payload = r'{"text":"\ud83d \u0000 \u2028\u0085</script>","n":123456789012345678901234567890,"f":1.5,"":[null]}'
    raw = f'{{"events": [{{"kind": "note", "payload": {payload}}}]}}'
    assert api.send("POST", path, raw.encode()).status_code == 200
    shown = api.get(path)
    assert shown.content.isascii()
    assert shown.json()["items"][0]["payload"] == json.loads(payload)


def test_a_child_shows_the_same_events_under_its_own_ids(
    api: Caller, paths: Paths, hosted: Callable[..., Session], forked: Callable[..., dict[str, Any]]
) -> None:
    source = hosted(turns=2)
    child = forked(source)["targetAgentSessionId"]
    api.post(paths.session(child, "events"), {"events": [{"kind": "note", "payload": {"text": "new"}}]})
    own = api.get(paths.session(source.pk, "events")).json()["items"]
    inherited = api.get(paths.session(child, "events")).json()["items"]
    assert [event["inherited"] for event in inherited] == [True] * 8 + [False]
    kept = ("seq", "kind", "atUnixMs", "payload")
    assert [[event[name] for name in kept] for event in inherited[:8]] == [
        [event[name] for name in kept] for event in own
    ]
    assert not {event["messageId"] for event in own if event["messageId"]} & {event["messageId"] for event in inherited}

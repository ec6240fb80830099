"""The child of one of our own forks is never imported as a session of its own, nor its inherited rows again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessions import history, holdings, store
from sessions.choices import SyncState
from sessions.models import Home, Session
from sessions.providers.base import DiscoveredSession, EventKind, ReadEvent
from tests.importing.conftest import RECORDINGS, Desk, only_session, put_claude, put_codex, sessions_of, shown, texts
from tests.importing.told import START_MS, Told, ToldAdapter, turn


class Holder:
    """Claims what it is told to."""

    def __init__(self) -> None:
        self.operation_id = uuid.uuid4()
        self.claimed: set[str] = set()
        self.asked: list[str] = []

    def __call__(self, home_id: uuid.UUID, found: DiscoveredSession) -> holdings.Held | None:
        self.asked.append(found.ref.provider_session_id)
        if found.ref.provider_session_id in self.claimed:
            return holdings.Held(self.operation_id, "unfinished")
        return None


@pytest.fixture
def holder() -> Iterator[Holder]:
    holder = Holder()
    holdings.register(holder)
    yield holder
    holdings.unregister(holder)


def commit_child(source: Session, through_turn: int, provider_session_id: str, *, kept: bool = True) -> Session:
    """What the saga's last step does: the child stands, with its seed, before the importer may see it."""
    turn_view = history.turn_by_ordinal(source, through_turn)
    assert turn_view is not None
    snapshot = store.freeze(source.pk, turn_view.last_seq)
    return store.materialise(
        snapshot,
        uuid.uuid4(),
        operation_id=uuid.uuid4(),
        title="The fork",
        provider_session_id=provider_session_id,
        binding_kept=kept,
        binding_map=None,
    )


def test_a_held_child_becomes_no_session_until_it_is_let_go(
    desk: Desk, told: ToldAdapter, told_home: Home, holder: Holder
) -> None:
    sessions_of(told, told_home).extend([Told("source", turn(1)), Told("child", turn(1))])
    holder.claimed.add("child")
    scanner = desk.scanner(told_home)
    scanner.scan()
    scanner.scan()
    assert [session.provider_session_id for session in Session.objects.all()] == ["source"]
    assert holder.asked.count("child") == 2, "it is asked again each time"
    assert holder.asked.count("source") == 1
    holder.claimed.clear()
    scanner.scan()
    assert Session.objects.count() == 2


def test_only_what_follows_the_boundary_is_read_into_a_committed_child(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    source = Told("source", [*turn(1), *turn(2), *turn(3)])
    sessions_of(told, told_home).append(source)
    desk.bring_in(told_home)
    child = commit_child(only_session(told_home), 2, "child")
    sessions_of(told, told_home).append(Told("child", [*turn(1), *turn(2), *turn(4)]))
    desk.bring_in(told_home)
    read = Session.objects.select_related("sync").get(pk=child.pk)
    assert texts(read) == ["prompt 1", "answer 1", "prompt 2", "answer 2", "prompt 4", "answer 4"]
    assert (read.seed_length, read.sync.state, read.title) == (8, SyncState.IMPORTED, "The fork")
    assert [t.inherited for t in history.turns(read)] == [True, True, False]
    assert Session.objects.count() == 2


def test_a_child_goes_on_after_its_stream_started_over(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    sessions_of(told, told_home).append(Told("source", [*turn(1), *turn(2)]))
    desk.bring_in(told_home)
    child = commit_child(only_session(told_home), 1, "child")
    own = Told("child", [*turn(1), *turn(4)])
    sessions_of(told, told_home).append(own)
    desk.bring_in(told_home)
    own.rewrite([*turn(1), *turn(4), *turn(5)])
    desk.bring_in(told_home)
    read = Session.objects.get(pk=child.pk)
    assert texts(read) == ["prompt 1", "answer 1", "prompt 4", "answer 4", "prompt 5", "answer 5"]
    assert read.history_revision == 0


def test_a_child_that_went_back_before_its_boundary_gives_up_that_part_of_its_seed(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    sessions_of(told, told_home).append(Told("source", [*turn(1), *turn(2)]))
    desk.bring_in(told_home)
    source = only_session(told_home)
    before = shown(source)
    child = commit_child(source, 2, "child")
    own = Told("child", [*turn(1), *turn(2), *turn(4)])
    sessions_of(told, told_home).append(own)
    desk.bring_in(told_home)
    own.rewrite([*turn(1), *turn(7)])
    desk.bring_in(told_home)
    read = Session.objects.get(pk=child.pk)
    assert texts(read) == ["prompt 1", "answer 1", "prompt 7", "answer 7"]
    assert (read.seed_length, read.history_revision) == (4, 1)
    assert shown(Session.objects.get(pk=source.pk)) == before
    own.grow(ReadEvent(EventKind.CONTEXT, START_MS, {"text": "and on"}))
    desk.bring_in(told_home)
    assert texts(Session.objects.get(pk=child.pk))[-1] == "and on"


def test_a_recorded_codex_child_takes_only_its_own_turn(desk: Desk) -> None:
    ids = json.loads((RECORDINGS / "codex" / "0.171.0" / "ids.json").read_text())["threads"]
    home = put_codex(desk, "0.171.0")
    child_file = Path(home.path) / ids["child (fork at source turn 2)"]["rollout"]
    others = [path for path in child_file.parent.iterdir() if path.name != Path(ids["source"]["rollout"]).name]
    kept = {path: path.read_bytes() for path in others}
    for path in others:
        path.unlink()
    desk.bring_in(home)
    source = only_session(home)
    child = commit_child(source, 2, ids["child (fork at source turn 2)"]["id"])
    child_file.write_bytes(kept[child_file])
    desk.bring_in(home)
    read = Session.objects.select_related("sync").get(pk=child.pk)
    assert [(t.prompt.split(":")[0], t.inherited) for t in history.turns(read)] == [
        ("First prompt", True),
        ("Second prompt", True),
        ("Child continues", False),
    ]
    assert read.observed_parent_id is None, "lineage says more than what was observed"


def test_a_recorded_claude_child_takes_only_its_own_turn(desk: Desk) -> None:
    expected = json.loads((RECORDINGS / "claude" / "expected_turns.json").read_text())
    home = put_claude(desk, source=expected["source"]["session_id"])
    desk.bring_in(home)
    source = only_session(home)
    target = expected["child_continued"]
    boundary = history.turn_by_ordinal(source, 2)
    assert boundary is not None
    child = store.materialise(
        store.freeze(source.pk, boundary.last_seq),
        uuid.uuid4(),
        operation_id=uuid.uuid4(),
        title="The fork",
        provider_session_id=target["session_id"],
        binding_map={
            number: [turn["prompt_uuid"], {"checkpoint": turn["checkpoint"]}]
            for number, turn in enumerate(target["turns"][:2], start=1)
        },
    )
    put_claude(desk, child_continued=target["session_id"])
    desk.bring_in(home)
    read = Session.objects.get(pk=child.pk)
    assert [t.inherited for t in history.turns(read)] == [True, True, False]
    assert [t.binding.data["checkpoint"] for t in history.turns(read) if t.binding] == [
        turn["checkpoint"] for turn in target["turns"]
    ]

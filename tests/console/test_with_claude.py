"""Unknown forks of the real Claude Code: found and adopted, proven not made, torn and left to a person."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from forkhost.demo.claude_home import ClaudeHome, make_home, run_turns
from forkhost.demo.mock_messages import MockMessages
from forkhost.kit.clock import HeldClock
from operations.choices import OperationStatus
from operations.models import Evidence, Operation
from sessions import history
from sessions.models import Session
from sessions.providers.crashpoints import VARIABLE, CrashPoint
from tests.claude.conftest import mock
from tests.conftest import People
from tests.console.agents import Place, make_place
from tests.console.support import card, press
from tests.operations.support import acts
from tests.pages.support import words

__all__ = ["mock"]

pytestmark = pytest.mark.django_db

S = OperationStatus


@pytest.fixture
def home(tmp_path: Path) -> ClaudeHome:
    return make_home(tmp_path / "claude")


@pytest.fixture
def source_id(home: ClaudeHome, mock: MockMessages) -> str:
    return run_turns(home, mock.url, ["Name a colour.", "Name a fruit.", "Name a city."])


@pytest.fixture
def place(people: People, home: ClaudeHome, source_id: str) -> Place:
    return make_place(people, "claude", home.config)


def transcripts(home: ClaudeHome) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in home.config.glob("projects/*/*.jsonl")}


def lost(place: Place, source_id: str, monkeypatch: pytest.MonkeyPatch, where: CrashPoint) -> Operation:
    """A fork whose process is killed at ``where``."""
    with monkeypatch.context() as killing:
        killing.setenv(VARIABLE, where)
        operation = place.fork(place.session(source_id), 2)
    assert (operation.status, operation.calls) == (S.UNKNOWN, 1), operation.error_text
    assert operation.announced_child_id
    return operation


def test_a_child_whose_answer_was_lost_is_adopted_by_itself_is_the_only_one_and_can_be_continued(
    place: Place,
    home: ClaudeHome,
    mock: MockMessages,
    source_id: str,
    held_clock: HeldClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operation = lost(place, source_id, monkeypatch, CrashPoint.AGENT_WROTE_CHILD)
    held_clock.advance(60)
    place.work(operation)
    place.work(operation)
    assert operation.status == S.COMMITTED
    assert acts(operation) == ["prepared", "dispatching", "unknown", "adopted", "committed"]
    child = Session.objects.get(pk=operation.target_session_id)
    assert child.provider_session_id == operation.announced_child_id
    assert set(transcripts(home)) == {source_id, child.provider_session_id}
    assert [turn.prompt for turn in history.turns(child)] == ["Name a colour.", "Name a fruit."]
    run_turns(home, mock.url, ["Name a river."], resume=child.provider_session_id)
    assert [text for role, text in mock.main_contexts()[-1] if role == "user"] == [
        "Name a colour.",
        "Name a fruit.",
        "Name a river.",
    ]


def test_a_process_that_was_killed_before_it_wrote_anything_is_proven_not_created(
    place: Place, home: ClaudeHome, source_id: str, held_clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = lost(place, source_id, monkeypatch, CrashPoint.AGENT_WRITES_CHILD)
    held_clock.advance(60)
    place.work(operation)
    assert (operation.status, operation.error_code) == (S.FAILED, "proven_not_created")
    assert set(transcripts(home)) == {source_id}


class TestATornTranscript:
    """What an SDK that writes in place leaves under the announced id when it is killed."""

    @pytest.fixture(params=["half a row", "no row at all"])
    def torn(
        self,
        request: pytest.FixtureRequest,
        place: Place,
        home: ClaudeHome,
        source_id: str,
        held_clock: HeldClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Operation:
        operation = lost(place, source_id, monkeypatch, CrashPoint.AGENT_WROTE_CHILD)
        [path] = home.config.glob(f"projects/*/{operation.announced_child_id}.jsonl")
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if request.param == "half a row" else b"")
        held_clock.advance(60)
        place.work(operation)
        return operation

    def test_is_never_adopted_and_shown_as_torn(
        self, place: Place, torn: Operation, console: Client, held_clock: HeldClock
    ) -> None:
        for _ in range(6):
            held_clock.advance(24 * 3600)
            place.work(torn)
        assert (torn.status, torn.needs_person) == (S.UNKNOWN, True)
        [candidate] = Evidence.objects.filter(operation_id=torn.pk).latest("id").candidates
        assert (candidate["strength"], candidate["complete"], candidate["torn"]) == ("exact", False, True)
        assert " torn " in words(console.get(card(torn)))

    def test_is_removed_when_an_operator_names_it_and_nothing_else_is_touched(
        self, place: Place, home: ClaudeHome, torn: Operation, source_id: str, console: Client
    ) -> None:
        before = transcripts(home)
        assert press(console, torn, "remove-torn", child=torn.announced_child_id).status_code == 302
        place.work(torn)
        assert transcripts(home) == {source_id: before[source_id]}
        assert (torn.status, torn.error_code) == (S.FAILED, "torn_child_removed")

    def test_that_somebody_continued_is_not_removed(
        self, place: Place, home: ClaudeHome, torn: Operation, source_id: str, console: Client
    ) -> None:
        [path] = home.config.glob(f"projects/*/{torn.announced_child_id}.jsonl")
        row = transcripts(home)[source_id].split(b"\n")
        own = next(line for line in row if b'"type":"assistant"' in line)
        path.write_bytes(path.read_bytes() + b"\n" + own + b"\n")
        press(console, torn, "remove-torn", child=torn.announced_child_id)
        place.work(torn)
        assert path.exists()
        assert "torn_not_removed" in acts(torn)

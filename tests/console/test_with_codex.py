"""Unknown forks of the real Codex: found and adopted, proven not made, torn and left to a person."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from forkhost.demo.codex_home import make_home, run_thread, running_codex
from forkhost.demo.mock_responses import MockResponses
from forkhost.kit.clock import HeldClock
from operations.choices import OperationStatus
from operations.models import Evidence, Operation
from sessions import history
from sessions.models import Session
from sessions.providers.codex import attestation
from sessions.providers.codex.executable import OVERRIDE
from sessions.providers.codex.rollouts import read_meta, rollout_files
from tests.codex.conftest import RECORDINGS, mock
from tests.codex.support import LEGACY, recorded_ids
from tests.codex.troublemaker import Trouble, make_troublemaker
from tests.conftest import People
from tests.console.agents import Place, make_place
from tests.console.support import card, press
from tests.operations.support import acts
from tests.pages.support import words

__all__ = ["mock"]

pytestmark = pytest.mark.django_db

S = OperationStatus


@pytest.fixture(autouse=True)
def nothing_proven_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attestation, "_proven", {})


@pytest.fixture
def home(mock: MockResponses, tmp_path: Path) -> Path:
    return make_home(tmp_path / "codex", mock.base_url)


def trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: Trouble) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", kind)))


def children_of(home: Path, thread_id: str) -> list[Path]:
    found = [(file.path, read_meta(file.path)) for file in rollout_files(home)]
    return [path for path, meta in found if meta is not None and meta.forked_from_id == thread_id]


def test_a_child_whose_answer_was_lost_is_adopted_by_itself_is_the_only_one_and_can_be_continued(
    people: People, home: Path, tmp_path: Path, held_clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    thread = run_thread(home, project, ["one", "two", "three"])
    trouble(monkeypatch, tmp_path, Trouble.DIES_WITH_THE_ANSWER)
    place = make_place(people, "codex", home)
    operation = place.fork(place.session(thread.id), 2)
    assert (operation.status, operation.calls) == (S.UNKNOWN, 1)
    held_clock.advance(60)
    place.work(operation)
    place.work(operation)

    assert operation.status == S.COMMITTED
    assert acts(operation) == ["prepared", "dispatching", "unknown", "adopted", "committed"]
    [path] = children_of(home, thread.id)
    child = Session.objects.get(pk=operation.target_session_id)
    assert str(path).endswith(f"{child.provider_session_id}.jsonl")
    assert [turn.prompt for turn in history.turns(child)] == ["one", "two"]
    place.bring_in()
    assert Session.objects.filter(home=place.home).count() == 2
    monkeypatch.delenv(OVERRIDE)
    from forkhost.demo.codex_home import Thread

    with running_codex(home) as codex:
        continued = codex.resume(Thread(child.provider_session_id, path))
        codex.run_turn(continued, "four")


def test_a_codex_that_was_killed_before_it_made_anything_is_proven_not_created(
    people: People, home: Path, tmp_path: Path, held_clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    thread = run_thread(home, project, ["one", "two"])
    trouble(monkeypatch, tmp_path, Trouble.DIES_BEFORE_PASSING_ON)
    place = make_place(people, "codex", home)
    operation = place.fork(place.session(thread.id), 1)
    assert operation.status == S.UNKNOWN
    held_clock.advance(60)
    place.work(operation)
    assert (operation.status, operation.error_code) == (S.FAILED, "proven_not_created")
    assert Evidence.objects.get(operation_id=operation.pk).absence_proves
    assert children_of(home, thread.id) == []


class TestATornCopyOfAnOldThread:
    """Codex writes a child of a thread from before 0.151 turn by turn; one that is killed leaves a part of it."""

    @pytest.fixture
    def source_id(self) -> str:
        return str(recorded_ids(LEGACY)["threads"]["source"]["id"])

    @pytest.fixture
    def place(
        self, people: People, home: Path, source_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Place:
        rollout = recorded_ids(LEGACY)["threads"]["source"]["rollout"]
        target = home / rollout
        target.parent.mkdir(parents=True)
        project = tmp_path / "project"
        project.mkdir()
        recorded = (RECORDINGS / LEGACY / "codex-home" / rollout).read_bytes()
        # Codex forks only where the thread's folder is.
        target.write_bytes(recorded.replace(b"/home/dev/project", str(project).encode()))
        trouble(monkeypatch, tmp_path, Trouble.DIES_WITH_THE_ANSWER)
        return make_place(people, "codex", home)

    @pytest.fixture
    def torn(self, place: Place, source_id: str, held_clock: HeldClock) -> Operation:
        """The real codex made the child; then it is cut to what a kill leaves: the first turn, without the chosen one."""
        operation = place.fork(place.session(source_id), 3)
        assert operation.status == S.UNKNOWN, operation.error_text
        [path] = children_of(Path(place.home.path), source_id)
        rows = path.read_bytes().split(b"\n")
        end = next(number for number, row in enumerate(rows) if b'"task_complete"' in row)
        path.write_bytes(b"\n".join(rows[: end + 1]) + b"\n")
        held_clock.advance(60)
        place.work(operation)
        return operation

    def test_is_never_adopted_and_shown_as_torn(
        self, place: Place, torn: Operation, source_id: str, console: Client, held_clock: HeldClock
    ) -> None:
        for _ in range(6):
            held_clock.advance(24 * 3600)
            place.work(torn)
        assert (torn.status, torn.needs_person) == (S.UNKNOWN, True)
        assert len(children_of(Path(place.home.path), source_id)) == 1
        newest = Evidence.objects.filter(operation_id=torn.pk).latest("id")
        [candidate] = newest.candidates
        assert (candidate["strength"], candidate["complete"], candidate["torn"]) == ("exact", False, True)
        assert newest.detail["verified"] == {}
        assert "The new session does not reach the chosen turn." in words(console.get(card(torn)))

    def test_is_removed_when_an_operator_names_it_and_nothing_else_is_touched(
        self, place: Place, torn: Operation, source_id: str, console: Client
    ) -> None:
        home = Path(place.home.path)
        [path] = children_of(home, source_id)
        kept = {file.path: file.path.read_bytes() for file in rollout_files(home) if file.path != path}
        [candidate] = Evidence.objects.filter(operation_id=torn.pk).latest("id").candidates
        assert press(console, torn, "remove-torn", child=candidate["providerSessionId"]).status_code == 302
        place.work(torn)
        assert not path.exists()
        assert {file.path: file.path.read_bytes() for file in rollout_files(home)} == kept
        assert (torn.status, torn.error_code) == (S.FAILED, "torn_child_removed")

    def test_that_somebody_continued_is_not_torn_and_not_removed(
        self, place: Place, torn: Operation, source_id: str
    ) -> None:
        from operations import saga

        [path] = children_of(Path(place.home.path), source_id)
        rows = path.read_bytes().split(b"\n")
        started = next(row for row in rows if b'"task_started"' in row)
        known = recorded_ids(LEGACY)["turns"]["source turn 1"].encode()
        other = b"01a22f0e-7777-7777-8777-777777777777"
        assert known in started
        path.write_bytes(path.read_bytes() + started.replace(known, other) + b"\n")
        child, named = saga.torn_children(torn.pk)[0]
        saga.ask_removal(torn.pk, child, named, actor="user:operator", reason="Is torn.", expected_version=torn.version)
        place.work(torn)
        assert path.exists()
        assert "torn_not_removed" in acts(torn)
        assert Evidence.objects.filter(operation_id=torn.pk).latest("id").candidates[0]["torn"] is False

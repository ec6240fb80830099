"""The real Codex, from the request to the session in the other home, under both contracts."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from forkhost.demo.codex_home import Thread, make_home, run_thread, running_codex
from forkhost.demo.mock_responses import MockResponses
from operations.choices import OperationStatus
from operations.models import Operation
from sessions import history, switches
from sessions.api.projections import resume_command
from sessions.choices import ForkContract, SyncState
from sessions.discovery import Scanner
from sessions.models import Home, Session
from sessions.providers import registry
from sessions.providers.base import HomeRef
from tests.codex.conftest import RECORDINGS, mock
from tests.codex.support import LEGACY, digests, recorded_ids
from tests.conftest import People
from tests.console.agents import Place, make_place

__all__ = ["mock"]

pytestmark = pytest.mark.django_db

S = OperationStatus
CONTRACTS = [ForkContract.OPTIMISTIC, ForkContract.STRICT]


@dataclass
class Homes:
    """The home where the sessions are, and the one where their forks are to live."""

    here: Place
    there: Place

    def scan(self) -> None:
        """Let the runner's worker look at both, twice: what is held may not be listed later either."""
        for _ in range(2):
            self.here.bring_in()
            self.there.bring_in()

    def listed(self) -> list[tuple[bool, str]]:
        """All sessions: whether they live in the other home, and the agent's id."""
        rows = Session.objects.values_list("home_id", "provider_session_id")
        return sorted((home_id == self.there.home.pk, str(provider_id)) for home_id, provider_id in rows)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def homes(people: People, mock: MockResponses, tmp_path: Path) -> Homes:
    here = make_place(people, "codex", make_home(tmp_path / "here", mock.base_url))
    there = make_place(people, "codex", make_home(tmp_path / "there", mock.base_url))
    switches.set_fork_home(people.workspace, "codex", there.home, actor="user:operator", reason="a disk of its own")
    return Homes(here, there)


def under(people: People, contract: ForkContract) -> None:
    people.workspace.fork_contract = contract
    people.workspace.save()


def path_of(home: Home) -> Path:
    return Path(home.path)


def prompts(session: Session) -> list[str]:
    return [turn.prompt for turn in history.turns(session)]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_fork_is_made_here_lives_there_and_goes_on_there(
    people: People, homes: Homes, mock: MockResponses, project: Path, contract: ForkContract
) -> None:
    under(people, contract)
    thread = run_thread(path_of(homes.here.home), project, ["one", "two", "three"])
    homes.scan()
    untouched = digests(HomeRef("codex", path_of(homes.here.home)))
    operation = homes.here.fork(homes.here.session(thread.id), 2)

    assert (operation.status, operation.calls) == (S.COMMITTED, 1), operation.error_text
    assert "listedTurns" in operation.receipt["bound"]["verified"]
    child = Session.objects.get(pk=operation.target_session_id)
    assert child.home_id == homes.there.home.pk
    assert child.sync.path == operation.receipt["bound"]["path"]
    assert Path(child.sync.path).is_relative_to(homes.there.home.path)
    assert f"CODEX_HOME={homes.there.home.path} codex resume {child.provider_session_id}" in resume_command(child)
    now = digests(HomeRef("codex", path_of(homes.here.home)))
    assert {path: now[path] for path in untouched} == untouched

    homes.scan()
    assert homes.listed() == [(False, thread.id), (True, str(child.provider_session_id))]
    with running_codex(path_of(homes.there.home)) as codex:
        codex.run_turn(codex.resume(Thread(str(child.provider_session_id), Path(child.sync.path))), "four")
    assert mock.requests[-1].prompts == ["one", "two", "four"]
    homes.scan()
    child.refresh_from_db()
    assert prompts(child) == ["one", "two", "four"]
    assert homes.listed() == [(False, thread.id), (True, str(child.provider_session_id))]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_child_is_no_session_in_either_home_before_its_fork_is_committed(
    people: People, homes: Homes, project: Path, contract: ForkContract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The importer finds the copy, and what it inherits from, while the fork is still on its way."""
    under(people, contract)
    thread = run_thread(path_of(homes.here.home), project, ["one", "two"])
    homes.scan()
    seen: list[list[tuple[bool, str]]] = []
    adapter = registry.adapter("codex")
    bind = type(adapter).bind

    def bind_and_look(self: object, *args: object) -> object:
        proof = bind(self, *args)  # type: ignore[arg-type]
        for place in (homes.here, homes.there):
            Scanner(place.home, adapter).scan()
        seen.append(homes.listed())
        return proof

    monkeypatch.setattr(type(adapter), "bind", bind_and_look)
    operation = homes.here.fork(homes.here.session(thread.id), 1)
    assert seen == [[(False, thread.id)]]
    assert operation.status == S.COMMITTED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_home_where_something_else_lies_is_left_alone_and_the_source_keeps_its_child(
    people: People, homes: Homes, project: Path, contract: ForkContract
) -> None:
    under(people, contract)
    thread = run_thread(path_of(homes.here.home), project, ["one", "two"])
    homes.scan()
    name = thread.path.relative_to(homes.here.home.path)
    mine = path_of(homes.there.home) / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_bytes(b"mine\n")
    operation = homes.here.fork(homes.here.session(thread.id), 1)

    expected = S.UNKNOWN if contract is ForkContract.STRICT else S.PROVIDER_ACCEPTED
    assert (operation.status, operation.error_code, operation.calls) == (expected, "binding_failed", 1)
    assert mine.read_bytes() == b"mine\n"
    assert not Session.objects.filter(pk=operation.target_session_id).exists()
    mine.unlink()
    homes.scan()
    Operation.objects.filter(pk=operation.pk).update(next_run_at=operation.prepared_at)
    for _ in range(2):
        homes.here.work(operation)
    assert (operation.status, operation.calls) == (S.COMMITTED, 1)
    homes.scan()
    assert [there for there, _ in homes.listed()] == [False, True]


def test_a_fork_of_a_bound_fork_stays_in_its_home_after_that_was_looked_at_again(
    people: People, homes: Homes, project: Path
) -> None:
    thread = run_thread(path_of(homes.here.home), project, ["one", "two"])
    homes.scan()
    first = homes.here.fork(homes.here.session(thread.id), 2)
    child = Session.objects.get(pk=first.target_session_id)
    lost = Path(child.sync.path)
    lost.unlink()
    second = homes.there.fork(child, 1)

    assert second.status == S.COMMITTED, second.error_text
    assert lost.is_file()
    grandchild = Session.objects.get(pk=second.target_session_id)
    assert (grandchild.home_id, prompts(grandchild)) == (homes.there.home.pk, ["one"])
    homes.scan()
    assert [there for there, _ in homes.listed()] == [False, True, True]


def test_an_old_thread_that_holds_its_whole_history_is_bound_alone(people: People, homes: Homes) -> None:
    shutil.copytree(RECORDINGS / LEGACY / "codex-home" / "sessions", path_of(homes.here.home) / "sessions")
    homes.scan()
    source = homes.here.session(recorded_ids(LEGACY)["threads"]["source"]["id"])
    Session.objects.filter(pk=source.pk).update(cwd="")
    source.refresh_from_db()
    operation = homes.here.fork(source, 2)

    assert operation.status == S.COMMITTED, operation.error_text
    child = Session.objects.get(pk=operation.target_session_id)
    assert len(operation.receipt["bound"]["copied"]) == 1
    homes.scan()
    assert Session.objects.get(home=homes.there.home).pk == child.pk
    assert child.sync.state == SyncState.IMPORTED

"""A session that lies in an agent's home: its machine, how to go on in a terminal, and what the agent can do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sessions.choices import SyncState
from sessions.providers.base import Attestation, BindingMode, IdentityMode, PointSupport, TurnBinding
from tests.api.support import Caller

if TYPE_CHECKING:
    from sessions.models import Home, Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db

ABLE = Attestation(
    driver_kind="codex-app-server",
    driver_version="0.171.0",
    fingerprint="f",
    points=PointSupport.ANY_TURN,
    whole_session=True,
    binding_mode=BindingMode.HOST_COPY,
    identity_mode=IdentityMode.MARKER,
    longest_fork_seconds=60,
)


@pytest.fixture
def home(people: People) -> Home:
    """A codex home that no worker has looked at."""
    from sessions.models import Home, Runner

    runner = Runner.objects.create(workspace=people.workspace, name="laptop")
    return Home.objects.create(runner=runner, provider="codex", path="/agents/codex home")


@pytest.fixture
def session(home: Home, hosted: Callable[..., Session]) -> Session:
    """Two settled turns, the second one without a turn of the agent's."""
    from sessions import store
    from sessions.models import SessionSync
    from sessions.store import TurnEnd, TurnStart

    made = hosted(turns=0, provider="codex", home=home, provider_session_id="0199-a", cwd="/src/it's")
    for number, binding in enumerate((TurnBinding("turn-1"), TurnBinding("", reason="turn_id_synthesized"))):
        at = 1_790_000_000_000 + number
        store.append(made.pk, [TurnStart(at, prompt="x", binding=binding), TurnEnd(at, "completed")])
    SessionSync.objects.create(session=made, path="/agents/codex/1.jsonl", stamp_imported="1", stamp_seen="1")
    return made


def attest(home: Home, attestation: Attestation) -> None:
    from sessions import runners

    home.attestation = runners.attestation_to_json(attestation)
    home.save()


def test_it_says_where_it_lives_and_how_to_go_on(
    api: Caller, paths: Paths, session: Session, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **more: pytest.fail("a process was started"))
    shown = api.get(paths.session(session.pk)).json()
    assert (shown["provider"], shown["providerSessionId"]) == ("codex", "0199-a")
    assert shown["runner"] == {"id": str(home.runner_id), "name": "laptop"}
    assert "0199-a" in shown["resumeCommand"]
    assert "'/src/it'" in shown["resumeCommand"], "quoted for a shell"


def test_nothing_can_be_forked_before_a_worker_attested(api: Caller, paths: Paths, session: Session) -> None:
    shown = api.get(paths.session(session.pk)).json()["lifecycleCapabilities"]
    assert shown == {"fork": False, "forkThroughTurn": False, "reason": "attestation_missing"}
    turns = api.get(paths.session(session.pk, "turns")).json()["items"]
    assert [(turn["forkable"], turn["reason"]) for turn in turns] == [(False, "attestation_missing")] * 2


def test_each_turn_says_whether_it_can_be_forked_at(api: Caller, paths: Paths, session: Session, home: Home) -> None:
    attest(home, ABLE)
    shown = api.get(paths.session(session.pk)).json()["lifecycleCapabilities"]
    assert shown == {"fork": True, "forkThroughTurn": True, "reason": None}
    turns = api.get(paths.session(session.pk, "turns")).json()["items"]
    told = [(turn["bindingState"], turn["forkable"], turn["reason"]) for turn in turns]
    assert told[0] == ("bound", True, None)
    assert told[1][1:] == (False, "turn_id_synthesized")


def test_an_agent_that_cannot_says_why(api: Caller, paths: Paths, session: Session, home: Home) -> None:
    attest(home, replace(ABLE, points=PointSupport.UNSUPPORTED, reason="version_too_old", detail="Too old."))
    shown = api.get(paths.session(session.pk)).json()["lifecycleCapabilities"]
    assert shown == {"fork": False, "forkThroughTurn": False, "reason": "version_too_old"}


def test_a_session_of_an_unknown_agent_is_shown(
    api: Caller, paths: Paths, home: Home, hosted: Callable[..., Session]
) -> None:
    made = hosted(turns=1, provider="of-tomorrow", home=home, provider_session_id="t")
    shown: dict[str, Any] = api.get(paths.session(made.pk)).json()
    assert shown["resumeCommand"] is None
    assert shown["lifecycleCapabilities"]["reason"] == "adapter_missing"


def test_how_far_its_transcript_is_read_is_told(api: Caller, paths: Paths, session: Session) -> None:
    session.sync.state, session.sync.bytes_done, session.sync.bytes_total = SyncState.IMPORTING, 70, 100
    session.sync.save()
    told = {"state": "importing", "bytesDone": 70, "bytesTotal": 100, "damagedLines": 0, "problem": None}
    assert api.get(paths.session(session.pk)).json()["transcript"] == told

    session.sync.state, session.sync.problem_code, session.sync.problem_text = SyncState.MISSING, "gone", "It is gone."
    session.sync.save()
    told |= {"state": "missing", "problem": {"code": "gone", "message": "It is gone."}}
    assert api.get(paths.session(session.pk)).json()["transcript"] == told

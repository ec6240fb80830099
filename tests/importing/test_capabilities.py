"""Each reason why a session or a turn cannot be forked, and the sentence for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from sessions import capabilities, history, runners, store
from sessions.capabilities import Capability, Reason
from sessions.choices import SessionKind, SyncState
from sessions.models import Home, Session
from sessions.providers.base import PointSupport, TurnBinding
from tests.importing.conftest import Desk, only_session, sessions_of
from tests.importing.told import ATTESTATION, Told, ToldAdapter, turn


@pytest.fixture
def session(desk: Desk, told: ToldAdapter, told_home: Home) -> Session:
    sessions_of(told, told_home).append(Told("s", [*turn(1), *turn(2), *turn(3, ended=False)]))
    desk.bring_in(told_home)
    runners.attest(told_home)
    return only_session(told_home)


def forkable(session: Session) -> list[tuple[bool, str]]:
    capability = capabilities.session_capability(session)
    answers = (capabilities.turn_capability(session, turn, capability) for turn in history.turns(session))
    return [(answer.forkable, answer.reason) for answer in answers]


def test_an_imported_session_of_an_attested_home_can_be_forked_at_its_settled_turns(session: Session) -> None:
    assert capabilities.session_capability(session) == Capability(fork=True, fork_through_turn=True)
    assert forkable(session) == [(True, ""), (True, ""), (False, "turn_not_settled")]


def tombstone(session: Session) -> None:
    session.tombstoned_at = timezone.now()


def make_lane(session: Session) -> None:
    session.kind = SessionKind.CHILD


def lose_provider_session(session: Session) -> None:
    session.provider_session_id = None


def lose_transcript(session: Session) -> None:
    session.sync.state = SyncState.MISSING


def lose_home(session: Session) -> None:
    assert session.home is not None
    session.home.problem_code = "home_missing"


def never_imported(session: Session) -> None:
    session.sync.stamp_imported = ""


def isolate(session: Session) -> None:
    session.worktree_isolated = True


def forget_attestation(session: Session) -> None:
    assert session.home is not None
    session.home.attestation = None


def another_agent(session: Session) -> None:
    session.provider = "unheard-of"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (tombstone, Reason.TOMBSTONED),
        (make_lane, Reason.NOT_ROOT),
        (lose_provider_session, Reason.NO_PROVIDER_SESSION),
        (lose_transcript, Reason.TRANSCRIPT_MISSING),
        (lose_home, Reason.HOME_MISSING),
        (never_imported, Reason.NOT_IMPORTED),
        (isolate, Reason.WORKTREE_ISOLATED),
        (forget_attestation, Reason.NOT_ATTESTED),
        (another_agent, Reason.ADAPTER_MISSING),
    ],
)
def test_each_obstacle_has_its_reason_and_a_sentence(
    session: Session, change: Callable[[Session], None], reason: Reason
) -> None:
    change(session)
    capability = capabilities.session_capability(session)
    assert (capability.fork, capability.fork_through_turn, capability.reason) == (False, False, reason)
    assert capability.sentence.endswith(".")
    assert set(forkable(session)) == {(False, str(reason))}


def test_what_the_adapter_refuses_is_explained_by_the_adapter(session: Session) -> None:
    session.provider_facts = {"refuse": "too_old"}
    capability = capabilities.session_capability(session)
    assert (capability.reason, capability.sentence) == ("too_old", "Because of too_old.")


def test_an_agent_that_forks_at_the_end_alone_offers_its_latest_turn(session: Session) -> None:
    assert session.home is not None
    session.home.attestation = runners.attestation_to_json(replace(ATTESTATION, points=PointSupport.LATEST_TURN))
    session.turn_count = 2
    capability = capabilities.session_capability(session)
    assert (capability.fork, capability.fork_through_turn, capability.reason) == (True, False, "only_latest_turn")
    assert forkable(session)[:2] == [(False, "only_latest_turn"), (True, "")]


def test_an_unbound_turn_says_why(session: Session) -> None:
    capability = capabilities.session_capability(session)
    first = history.turns(session)[0]
    unbound: list[tuple[dict[str, Any], str]] = [
        ({"binding": None, "binding_reason": ""}, "turn_unbound"),
        ({"binding": None, "binding_reason": "turn_id_synthesized"}, "turn_id_synthesized"),
        ({"binding": TurnBinding("", reason="sidechain_only"), "binding_reason": ""}, "sidechain_only"),
    ]
    for change, reason in unbound:
        answer = capabilities.turn_capability(session, replace(first, **change), capability)
        assert (answer.forkable, answer.reason) == (False, reason)
        assert answer.sentence


def test_a_fork_can_be_forked_before_its_own_transcript_was_looked_at(session: Session) -> None:
    child = store.materialise(
        store.freeze(session.pk, history.turns(session)[1].last_seq),
        uuid.uuid4(),
        operation_id=uuid.uuid4(),
        title="The fork",
        provider_session_id="child",
        binding_kept=True,
    )
    assert forkable(Session.objects.select_related("home").get(pk=child.pk)) == [(True, ""), (True, "")]


def test_a_hosted_session_needs_no_agent(desk: Desk) -> None:
    hosted = store.create(workspace=desk.runner.workspace, provider="hosted")
    assert capabilities.session_capability(hosted) == Capability(fork=True, fork_through_turn=True)

"""Whether a session, and a turn of it, can be forked, and the sentence that says why not.

The one answer for pages, API and saga. It reads the session's row, its sync row, and the *stored* attestation of its
home; no provider is started and no file is touched. Callers that show many sessions use ``select_related("home",
"sync")``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django.core.exceptions import ObjectDoesNotExist

from sessions import runners
from sessions.choices import SessionKind, SyncState, TurnPhase
from sessions.models import Session, SessionSync
from sessions.providers import registry
from sessions.providers.base import Adapter, Attestation, PointSupport, SessionFacts

if TYPE_CHECKING:
    from sessions.history import TurnView


class Reason(enum.StrEnum):
    """Why forkhost itself says no; adapters add reasons of their own."""

    TOMBSTONED = "session_tombstoned"
    NOT_ROOT = "source_not_root"
    NOT_IMPORTED = "history_not_imported"
    TRANSCRIPT_MISSING = "source_transcript_missing"
    HOME_MISSING = "home_missing"
    NO_PROVIDER_SESSION = "provider_session_missing"
    WORKTREE_ISOLATED = "worktree_isolated"
    ADAPTER_MISSING = "adapter_missing"
    NOT_ATTESTED = "attestation_missing"
    TURN_NOT_SETTLED = "turn_not_settled"
    TURN_UNBOUND = "turn_unbound"
    ONLY_LATEST_TURN = "only_latest_turn"


SENTENCES: dict[Reason, str] = {
    Reason.TOMBSTONED: "This session was deleted; restore it first.",
    Reason.NOT_ROOT: "This is a sub-agent's lane; only whole conversations can be forked.",
    Reason.NOT_IMPORTED: "The history of this session is still being imported; try again in a moment.",
    Reason.TRANSCRIPT_MISSING: "The agent's transcript of this session is gone, so the agent cannot fork it any more.",
    Reason.HOME_MISSING: "The agent's folder on this session's machine is gone.",
    Reason.NO_PROVIDER_SESSION: "The agent has no session of its own for this one.",
    Reason.WORKTREE_ISOLATED: "This session runs in an isolated worktree, and a fork would share it.",
    Reason.ADAPTER_MISSING: "No adapter for this kind of agent is installed here.",
    Reason.NOT_ATTESTED: "No worker has checked yet what the agent on this machine can do.",
    Reason.TURN_NOT_SETTLED: "This turn is not settled yet.",
    Reason.TURN_UNBOUND: "This turn cannot be tied to one of the agent's own turns.",
    Reason.ONLY_LATEST_TURN: "This agent can fork only at the end of the conversation.",
}


@dataclass(frozen=True, slots=True)
class Capability:
    """What a session allows now.

    ``fork``: it can be forked at its last settled turn. ``fork_through_turn``: at any settled turn that is bound.
    ``reason`` (a stable code) and ``sentence`` (for people) are empty when both hold.
    """

    fork: bool
    fork_through_turn: bool
    reason: str = ""
    sentence: str = ""


class TurnCapability(NamedTuple):
    """Whether one turn can be forked at; ``reason`` and ``sentence`` are empty when it can."""

    forkable: bool
    reason: str = ""
    sentence: str = ""


def session_capability(session: Session) -> Capability:
    """What the session allows; the rules of eligibility in their order, then the adapter's own."""
    reason = _own_reason(session)
    if reason:
        return _refused(reason)
    if is_hosted(session):
        return Capability(fork=True, fork_through_turn=True)
    adapter = registry.adapters().get(session.provider)
    if adapter is None:
        return _refused(Reason.ADAPTER_MISSING)
    attestation = runners.stored_attestation(session.home)
    if attestation is None:
        return _refused(Reason.NOT_ATTESTED)
    code = adapter.can_fork(attestation, session_facts(session), None)
    if code:
        return Capability(False, False, code, _explain(adapter, attestation, code))
    if attestation.points is PointSupport.LATEST_TURN:
        return Capability(True, False, Reason.ONLY_LATEST_TURN, SENTENCES[Reason.ONLY_LATEST_TURN])
    return Capability(fork=True, fork_through_turn=True)


def turn_capability(session: Session, turn: TurnView, capability: Capability) -> TurnCapability:
    """Whether ``turn`` of ``session`` can be forked at; ``capability`` is the session's."""
    if not capability.fork:
        return TurnCapability(False, capability.reason, capability.sentence)
    if turn.phase != TurnPhase.SETTLED:
        return _turn_refused(Reason.TURN_NOT_SETTLED)
    if is_hosted(session):
        return TurnCapability(True)
    if not capability.fork_through_turn and turn.ordinal != session.turn_count:
        return _turn_refused(Reason.ONLY_LATEST_TURN)
    adapter = registry.adapters()[session.provider]
    attestation = runners.stored_attestation(session.home)
    if turn.binding is None or not turn.binding.provider_turn_id:
        code = turn.binding_reason or (turn.binding.reason if turn.binding else "")
        if not code:
            return _turn_refused(Reason.TURN_UNBOUND)
        return TurnCapability(False, code, _explain(adapter, attestation, code))
    code = adapter.can_fork(attestation, session_facts(session), turn.binding)
    return TurnCapability(False, code, _explain(adapter, attestation, code)) if code else TurnCapability(True)


def is_hosted(session: Session) -> bool:
    """Whether the session is recorded through the API and has no provider behind it."""
    return session.home_id is None


def session_facts(session: Session) -> SessionFacts:
    """What an adapter's ``can_fork`` may look at."""
    sync = _sync(session)
    return SessionFacts(
        provider_session_id=session.provider_session_id or "",
        provider_version=session.provider_version,
        cwd=session.cwd,
        damaged=bool(sync and sync.damage_count),
        extra=session.provider_facts,
    )


def _own_reason(session: Session) -> Reason | None:
    if session.tombstoned_at is not None:
        return Reason.TOMBSTONED
    if session.kind != SessionKind.ROOT:
        return Reason.NOT_ROOT
    if is_hosted(session):
        return None
    if not session.provider_session_id:
        return Reason.NO_PROVIDER_SESSION
    if session.home is not None and session.home.problem_code == Reason.HOME_MISSING:
        return Reason.HOME_MISSING
    sync = _sync(session)
    if sync is not None and sync.state == SyncState.MISSING:
        return Reason.TRANSCRIPT_MISSING
    # Without a sync row the history is the fork's own frozen one, complete from its first moment.
    if sync is not None and not sync.stamp_imported and not session.seed_length:
        return Reason.NOT_IMPORTED
    if session.worktree_isolated:
        return Reason.WORKTREE_ISOLATED
    return None


def _sync(session: Session) -> SessionSync | None:
    try:
        return session.sync
    except ObjectDoesNotExist:
        return None


def _refused(reason: Reason) -> Capability:
    return Capability(False, False, reason, SENTENCES[reason])


def _turn_refused(reason: Reason) -> TurnCapability:
    return TurnCapability(False, reason, SENTENCES[reason])


def _explain(adapter: Adapter, attestation: Attestation | None, code: str) -> str:
    """The most telling sentence there is: what the runtime said about itself, else what the adapter knows."""
    if attestation is not None and attestation.reason == code and attestation.detail:
        return attestation.detail
    return adapter.explain(code)

"""What the files of a home prove about the child of a fork. Reads only; starts nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sessions.providers.base import (
    Candidate,
    ChildSearch,
    ForkAccepted,
    ForkRequest,
    ForkSettings,
    Json,
    MatchStrength,
    Rejected,
    TurnBinding,
    TurnMapping,
    Unreadable,
)
from sessions.providers.codex import reasons, settings
from sessions.providers.codex.lineage import TurnMark, locate, resolve, turn_marks
from sessions.providers.codex.lines import lines
from sessions.providers.codex.records import NotJson, parse
from sessions.providers.codex.rollouts import (
    SESSIONS,
    Meta,
    RolloutFile,
    find_rollout,
    read_meta,
    rollout_files,
    uuid7_ms,
)
from sessions.providers.codex.torn import broken_off

METHOD = "first lines of rollouts"
CLOCK_SLACK_MS = 120_000
SETTINGS_HEAD = 4 << 20


@dataclass(frozen=True, slots=True)
class Proof:
    """What is wrong with a child ("" = nothing) and what was checked."""

    code: str = ""
    problem: str = ""
    verified: list[str] = field(default_factory=list)
    paginated: bool = False


def confirm_turn(request: ForkRequest) -> None:
    """Check in the source's rollouts that the turn is canonical and has an end.

    Raises :class:`Rejected` with ``turn_not_found`` or ``turn_in_progress``, and :class:`Unreadable`.
    """
    source = request.source
    wanted = request.turn.binding.provider_turn_id
    marks = turn_marks(resolve(source.home.path, locate(source)))
    mark = next((mark for mark in marks if mark.turn_id == wanted), None)
    if mark is None:
        raise Rejected(reasons.TURN_NOT_FOUND, f"Turn {request.turn.ordinal} is no longer in the record of codex.")
    if not mark.ended:
        raise Rejected(reasons.TURN_IN_PROGRESS, f"Turn {request.turn.ordinal} has not ended in the record of codex.")


def prove_child(request: ForkRequest, path: Path, home: Path | None = None) -> Proof:
    """Compare a child's files in ``home`` (the source's by default) with the request. Raises :class:`Unreadable`.

    In another home than the source's the source itself may be gone.
    """
    parts = resolve(home or request.source.home.path, path)
    child = parts[-1].meta
    first = next(part.meta for part in parts if part.meta.thread_id == child.thread_id)
    if child.thread_id == request.source.provider_session_id:
        return Proof(reasons.WRONG_CHILD, "Codex named the source itself as the fork.")
    if first.forked_from_id != request.source.provider_session_id:
        return Proof(reasons.WRONG_CHILD, "The new session names another session as its origin.")
    if first.thread_source != request.marker:
        return Proof(reasons.WRONG_CHILD, "The new session does not carry the mark of this fork.")
    problem = _wrong_turns(request, turn_marks(parts), child, source_needed=home is None)
    if problem:
        return Proof(reasons.WRONG_CHILD, problem)
    wider = settings.widened(request.settings, _child_settings(path))
    if wider:
        return Proof(reasons.RIGHTS_WIDENED, f"The new session has a wider {' and '.join(wider)} than its source.")
    verified = ["origin", "marker", "prefix" if request.require_prefix else "lastTurn", "rights"]
    return Proof(verified=verified, paginated=child.paginated)


def accepted(request: ForkRequest, child_id: str, path: Path, proof: Proof) -> ForkAccepted:
    """The acceptance of a proven child. Codex keeps turn ids, so the chosen turn maps to itself."""
    turn_id = request.turn.binding.provider_turn_id
    receipt: Json = {
        "childProviderSessionId": child_id,
        "path": str(path),
        "verified": proof.verified,
        "dependsOnSourceFiles": proof.paginated,
        "historyMode": "paginated" if proof.paginated else "legacy",
        "marker": request.marker,
    }
    return ForkAccepted(
        child_provider_session_id=child_id,
        mapping=[TurnMapping(turn_id, TurnBinding(turn_id))],
        kept=True,
        receipt=receipt,
        child_path=path,
    )


def verify(request: ForkRequest, child_id: str) -> ForkAccepted:
    """Prove a child by its files alone. Raises :class:`Rejected`, :class:`Unreadable`."""
    found = find_rollout(request.source.home.path, child_id)
    if found is None:
        raise Unreadable(reasons.SOURCE_MISSING, f"Codex has no rollout of session {child_id}.")
    proof = prove_child(request, found.path)
    if proof.code:
        raise Rejected(proof.code, proof.problem, child_provider_session_id=child_id)
    return accepted(request, child_id, found.path, proof)


def find_children(request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
    """Look through the first lines of all rollouts that can be young enough. Raises :class:`Unreadable`."""
    home = request.source.home.path
    if not (home / SESSIONS).is_dir():
        raise Unreadable(reasons.HOME_MISSING, f"The folder {home / SESSIONS} does not exist.")
    candidates: list[Candidate] = []
    torn = looked_at = 0
    for file in rollout_files(home):
        if file.segment_id:
            continue
        created = uuid7_ms(file.thread_id)
        if file.thread_id != announced_id and created and created < since_ms - CLOCK_SLACK_MS:
            continue
        looked_at += 1
        meta = read_meta(file.path)
        if meta is None:
            torn += 1
            continue
        strength = _strength(request, meta, announced_id)
        if strength is not MatchStrength.NONE:
            candidates.append(_candidate(request, file, meta, strength))
    candidates.sort(key=lambda candidate: (candidate.created_at_ms, candidate.provider_session_id))
    detail = f"{looked_at} rollouts looked at, {torn} of them without a whole first line (those are no sessions)."
    return ChildSearch(METHOD, candidates, absence_proves=True, detail=detail)


def _strength(request: ForkRequest, meta: Meta, announced_id: str) -> MatchStrength:
    if meta.thread_id == request.source.provider_session_id:
        return MatchStrength.NONE
    ours = meta.thread_source == request.marker
    if ours and meta.forked_from_id == request.source.provider_session_id:
        return MatchStrength.EXACT
    if ours or (announced_id and meta.thread_id == announced_id):
        return MatchStrength.LIKELY
    return MatchStrength.NONE


def _candidate(request: ForkRequest, file: RolloutFile, meta: Meta, strength: MatchStrength) -> Candidate:
    facts: Json = {"forkedFromId": meta.forked_from_id, "threadSource": meta.thread_source, "bytes": file.size}
    complete = torn = False
    try:
        proof = prove_child(request, file.path)
        complete = not proof.code
        facts["problem"] = proof.problem
    except Unreadable as error:
        facts["problem"] = error.message
    if strength is MatchStrength.EXACT and not complete:
        torn = broken_off(request, file.path, meta)
    return Candidate(meta.thread_id, strength, complete, meta.created_at_ms, file.path, facts, torn)


def _wrong_turns(request: ForkRequest, marks: list[TurnMark], child: Meta, *, source_needed: bool) -> str:
    """What is wrong with the child's turns, "" when they are the source's through the chosen one.

    A child that somebody has continued has turns of its own behind them; a torn copy lacks the chosen one.
    """
    wanted = request.turn.binding.provider_turn_id
    ids = [mark.turn_id for mark in marks]
    if wanted not in ids or not marks[ids.index(wanted)].ended:
        return "The new session does not reach the chosen turn."
    inherited = ids[: ids.index(wanted) + 1]
    following = marks[len(inherited) :]
    if child.paginated and any(mark.thread_id != child.thread_id for mark in following):
        return "The new session holds turns of its source behind the chosen one."
    if not child.paginated and _later_in_source(request, {mark.turn_id for mark in following}, needed=source_needed):
        return "The new session holds turns of its source behind the chosen one."
    if request.require_prefix:
        bound = [binding.provider_turn_id for binding in request.prefix if binding.provider_turn_id]
        if [turn_id for turn_id in inherited if turn_id in set(bound)] != bound:
            return "The new session does not hold the source's turns in their order."
    return ""


def _later_in_source(request: ForkRequest, ids: set[str], *, needed: bool) -> bool:
    """Whether a full copy took over turns that the source has behind the chosen one."""
    if not ids:
        return False
    source = request.source
    try:
        return any(mark.turn_id in ids for mark in turn_marks(resolve(source.home.path, locate(source))))
    except Unreadable:
        if needed:
            raise
        return False


def _child_settings(path: Path) -> ForkSettings:
    """The settings that codex wrote down for the child when it made it."""
    size = path.stat().st_size
    for line in lines(path, 0, min(size, SETTINGS_HEAD)):
        if line.number > 1 and line.data is not None and b'"thread_settings_applied"' in line.data[:200]:
            try:
                applied = parse(line.data).payload.get("thread_settings")
            except NotJson:
                continue
            return settings.from_context(applied) if isinstance(applied, dict) else ForkSettings()
    return ForkSettings()

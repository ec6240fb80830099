"""Makes a child readable in another ``CODEX_HOME``, durably and never over anything else.

The child's record is copied whole; of every record it inherits from, just the bytes that it points into. Those never
change again, so that doing it twice, or again after a crash, comes to the same (:mod:`.standing` has the rules). Then
codex itself has to list the child's turns there. The home the child comes from is only read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sessions.providers.base import ForkRequest, HomeRef, Json, Rejected, Unreadable
from sessions.providers.codex import copying, projecting, reasons, standing
from sessions.providers.codex.evidence import prove_child
from sessions.providers.codex.lineage import Part, resolve, turn_marks
from sessions.providers.codex.rollouts import SESSIONS, find_rollout, parse_name
from sessions.providers.codex.standing import Standing

_DATE = re.compile(r"rollout-(\d{4})-(\d{2})-(\d{2})T")

SENTENCES = {
    Standing.FOREIGN: "{path} exists and is no beginning of the record it should hold; it was not touched.",
    Standing.DAMAGED: "{path} was continued and is damaged since; it was not touched.",
}


@dataclass(frozen=True, slots=True)
class _Step:
    """One part of the lineage and the file it belongs into."""

    part: Part
    there: Path
    standing: Standing


def bind(request: ForkRequest, child_id: str, target: HomeRef) -> Json:
    """Bring what is missing and verify the child in ``target``; return the evidence. The same home is only verified.

    Raises :class:`Rejected` (``bind_conflict``, ``bind_damaged``: what is there stays as it is; ``wrong_child``) and
    :class:`Unreadable` (nothing to copy from, a home that cannot be written, a codex that cannot read it).
    """
    home = request.source.home.path
    if os.path.realpath(home) == os.path.realpath(target.path):
        child = find_rollout(home, child_id)
        if child is None:
            raise Unreadable(reasons.SOURCE_MISSING, f"Codex has no rollout of session {child_id}.")
        return _evidence(request, child_id, target.path, child.path, [])
    parts = _originals(home, child_id)
    if parts is None:
        return _shown(request, child_id, target.path, _complete_already(target.path, child_id), [], opened_before=True)
    steps = [_step(part, target.path, own=part is parts[-1]) for part in parts]
    _refuse(steps)
    try:
        changed = [name for step in steps if (name := _take(step, target.path))]
    except FileExistsError as error:
        raise Rejected(reasons.BIND_CONFLICT, f"Somebody else wrote there at the same time: {error}.") from error
    except OSError as error:
        raise Unreadable(reasons.HOME_UNWRITABLE, f"{target.path} could not be written: {error}.") from error
    opened_before = steps[-1].standing is Standing.CONTINUED
    return _shown(request, child_id, target.path, steps[-1].there, changed, opened_before=opened_before)


def _originals(home: Path, child_id: str) -> list[Part] | None:
    """The child's lineage in the home it was made in, oldest first; None when it is gone. Raises :class:`Unreadable`."""
    try:
        child = find_rollout(home, child_id)
        return resolve(home, child.path) if child is not None else None
    except Unreadable as error:
        if error.code in (reasons.SOURCE_MISSING, reasons.HOME_MISSING):
            return None
        raise


def _complete_already(target: Path, child_id: str) -> Path:
    """The child's record in ``target`` when it and all it inherits from are whole: nothing is left to compare with."""
    child = find_rollout(target, child_id)
    if child is None:
        raise Unreadable(reasons.SOURCE_MISSING, f"Neither home has a rollout of session {child_id} any more.")
    for part in resolve(target, child.path):
        flaw = standing.flaw(part.path, part.end, part.meta.thread_id)
        if flaw:
            raise Rejected(reasons.BIND_DAMAGED, f"{flaw} The original is gone, so it cannot be repaired.")
    return child.path


def _step(part: Part, target: Path, *, own: bool) -> _Step:
    there = _place(part, target)
    return _Step(part, there, standing.of_child(part, there) if own else standing.of_ancestor(part, there))


def _place(part: Part, target: Path) -> Path:
    """Where the part lies in ``target``, wherever codex has moved it since; else where codex would put it."""
    ids = parse_name(part.path.name)
    found = find_rollout(target, ids[1] or ids[0]) if ids is not None else None
    if found is not None:
        return found.path
    date = _DATE.match(part.path.name)
    # Codex opens no archived session, but to show the child it has to open what the child inherits from.
    folder = target / SESSIONS / "/".join(date.groups()) if date is not None else target / SESSIONS
    return folder / part.path.name


def _refuse(steps: Sequence[_Step]) -> None:
    """Look at everything before anything is written. Raises :class:`Rejected`, :class:`Unreadable`."""
    for step in steps:
        if step.standing is Standing.FOREIGN:
            raise Rejected(reasons.BIND_CONFLICT, SENTENCES[step.standing].format(path=step.there))
        if step.standing is Standing.DAMAGED:
            raise Rejected(reasons.BIND_DAMAGED, SENTENCES[step.standing].format(path=step.there))
        if step.standing in (Standing.ABSENT, Standing.SHORTER):
            flaw = standing.flaw(step.part.path, step.part.end, step.part.meta.thread_id)
            if flaw:
                raise Unreadable(reasons.SOURCE_DAMAGED, f"{flaw} Nothing was copied.")


def _take(step: _Step, target: Path) -> str:
    """Copy or repair one part where that is needed; the name of what was written, "" when nothing was."""
    if step.standing not in (Standing.ABSENT, Standing.SHORTER):
        copying.clear(step.there)
        return ""
    over = step.there.stat().st_size if step.standing is Standing.SHORTER else None
    copying.bring(step.part.path, step.part.end, step.there, target, over=over)
    return str(step.there.relative_to(target))


def _shown(
    request: ForkRequest, child_id: str, home: Path, path: Path, changed: list[str], *, opened_before: bool
) -> Json:
    """The evidence, once codex lists the inherited turns in the other home. Raises Rejected, Unreadable."""
    evidence = _evidence(request, child_id, home, path, changed)
    parts = resolve(home, path)
    marks = [mark.turn_id for mark in turn_marks(parts)]
    inherited = marks[: marks.index(request.turn.binding.provider_turn_id) + 1]
    lineage = list(dict.fromkeys(part.meta.thread_id for part in parts))
    projecting.project(request, home, lineage, inherited, os.environ, opened_before=opened_before)
    return {**evidence, "verified": [*evidence["verified"], "listedTurns"]}


def _evidence(request: ForkRequest, child_id: str, home: Path, path: Path, changed: list[str]) -> Json:
    proof = prove_child(request, path, home)
    if proof.code:
        raise Rejected(proof.code, proof.problem, child_provider_session_id=child_id)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"home": str(home), "path": str(path), "copied": changed, "sha256": digest, "verified": proof.verified}

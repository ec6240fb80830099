"""Children that a killed codex left unfinished: recognised by what is in them, removed only when somebody asks."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sessions.providers.base import Candidate, ForkRequest, Json, MatchStrength, Rejected, Unreadable
from sessions.providers.codex import reasons
from sessions.providers.codex.lineage import locate, resolve, turn_marks
from sessions.providers.codex.rollouts import Meta, read_meta, rollout_files


def broken_off(request: ForkRequest, path: Path, meta: Meta) -> bool:
    """Whether the rollout is this fork's own, lacks the chosen turn, and holds nothing but turns of the source.

    Only full copies of an old thread are written turn by turn; one that points into its source is whole or no session.
    """
    source = request.source
    if meta.paginated or meta.thread_source != request.marker or meta.forked_from_id != source.provider_session_id:
        return False
    try:
        marks = turn_marks(resolve(source.home.path, path))
        known = {mark.turn_id for mark in turn_marks(resolve(source.home.path, locate(source)))}
    except Unreadable:
        return False
    wanted = request.turn.binding.provider_turn_id
    reached = any(mark.turn_id == wanted and mark.ended for mark in marks)
    return not reached and all(mark.turn_id in known for mark in marks)


def remove_torn(request: ForkRequest, candidate: Candidate) -> Json:
    """Delete the rollout of a torn child, durably. The row that codex may keep about it leads nowhere and is ignored.

    Raises :class:`Rejected` with ``not_torn`` or ``child_in_use``, :class:`Unreadable`.
    """
    path, home = candidate.path, request.source.home.path
    files = list(rollout_files(home))
    own = path is not None and any(
        file.path == path and file.thread_id == candidate.provider_session_id for file in files
    )
    meta = read_meta(path) if own and path is not None else None
    if path is None or meta is None or meta.thread_id != candidate.provider_session_id:
        raise Rejected(reasons.NOT_TORN, "This file is not the record of that session.")
    if candidate.strength is not MatchStrength.EXACT or not broken_off(request, path, meta):
        raise Rejected(reasons.NOT_TORN, "This session is not a broken-off child of this fork, so it is not touched.")
    others = [read_meta(file.path) for file in files if file.path != path]
    if any(other is not None and meta.thread_id in _origins(other) for other in others):
        raise Rejected(reasons.CHILD_IN_USE, "Another session was forked from this one, so it is not touched.")
    try:
        content = path.read_bytes()
        path.unlink()
        _sync_folder(path.parent)
    except OSError as error:
        raise Unreadable(reasons.SOURCE_MISSING, f"{path.name} cannot be removed: {error.strerror}.") from error
    return {
        "childProviderSessionId": meta.thread_id,
        "path": str(path),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _origins(meta: Meta) -> set[str]:
    origins = {meta.forked_from_id, meta.parent_thread_id}
    return origins if meta.base is None else {*origins, meta.base.id}


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

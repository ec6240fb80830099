"""Makes a child readable in another ``CODEX_HOME`` by copying the records it needs, durably and never over anything else.

The child's record is copied whole; of every record it inherits from, just the bytes that it points into. Those never
change again, so that doing it twice, or again after a crash, comes to the same.
"""

from __future__ import annotations

import enum
import os
from pathlib import Path

from sessions.providers.base import ForkRequest, HomeRef, Json, Rejected, Unreadable
from sessions.providers.codex import reasons
from sessions.providers.codex.evidence import prove_child
from sessions.providers.codex.lineage import Part, resolve
from sessions.providers.codex.rollouts import find_rollout

CHUNK = 1 << 20


class Overlap(enum.Enum):
    """How what is there compares with what is to be copied."""

    NOTHING_THERE = enum.auto()
    BEGINNING_THERE = enum.auto()
    ALL_THERE = enum.auto()
    SOMETHING_ELSE = enum.auto()


def bind(request: ForkRequest, child_id: str, target: HomeRef) -> Json:
    """Copy what is missing and verify the child in ``target``; return the evidence.

    Raises :class:`Rejected` (``bind_conflict``, nothing is overwritten; ``wrong_child``) and :class:`Unreadable`.
    """
    home = request.source.home.path
    child = find_rollout(home, child_id)
    if child is None:
        raise Unreadable(reasons.SOURCE_MISSING, f"Codex has no rollout of session {child_id}.")
    copied: list[str] = []
    if os.path.realpath(home) != os.path.realpath(target.path):
        # The child comes last: codex must never find it without what it points into.
        try:
            copied = [name for part in resolve(home, child.path) if (name := _bring(part, home, target.path))]
        except OSError as error:
            raise Unreadable(reasons.HOME_UNWRITABLE, f"{target.path} could not be written: {error}.") from error
    path = target.path / child.path.relative_to(home)
    proof = prove_child(request, path, target.path)
    if proof.code:
        raise Rejected(proof.code, proof.problem, child_provider_session_id=child_id)
    return {"home": str(target.path), "path": str(path), "copied": copied, "verified": proof.verified}


def _bring(part: Part, home: Path, target: Path) -> str:
    """Copy one part unless it is there already; the name of what was copied, "" when nothing was."""
    name = part.path.relative_to(home)
    destination = target / name
    overlap = _compare(part, destination)
    if overlap is Overlap.ALL_THERE:
        return ""
    if overlap is Overlap.SOMETHING_ELSE:
        raise Rejected(reasons.BIND_CONFLICT, f"{destination} exists and is no beginning of the record it should hold.")
    _make_folders(destination.parent, target)
    unfinished = destination.with_name(f".{destination.name}.{os.getpid()}.part")
    try:
        _copy(part, unfinished)
        os.replace(unfinished, destination)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync_folder(destination.parent)
    return str(name)


def _compare(part: Part, destination: Path) -> Overlap:
    try:
        there = destination.stat().st_size
    except FileNotFoundError:
        return Overlap.NOTHING_THERE
    left = min(there, part.end)
    with part.path.open("rb") as ours, destination.open("rb") as theirs:
        while left > 0:
            size = min(CHUNK, left)
            if ours.read(size) != theirs.read(size):
                return Overlap.SOMETHING_ELSE
            left -= size
    return Overlap.ALL_THERE if there >= part.end else Overlap.BEGINNING_THERE


def _copy(part: Part, destination: Path) -> None:
    """Write the part's bytes so that they survive a loss of power."""
    left = part.end
    with part.path.open("rb") as source, destination.open("wb") as file:
        while left > 0 and (chunk := source.read(min(CHUNK, left))):
            file.write(chunk)
            left -= len(chunk)
        file.flush()
        os.fsync(file.fileno())
    if left:
        raise Unreadable(reasons.SOURCE_DAMAGED, f"{part.path.name} became shorter while it was copied.")


def _make_folders(folder: Path, root: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if path.is_relative_to(root) and not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

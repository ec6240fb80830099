"""What a fork needs of its source, frozen as plain values."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sessions import payloads

VERSION = 1
# What is not written down, because it is so of nearly every source.
_NOTHING: dict[str, Any] = {
    "history_revision": 0,
    "interactions": (),
    "attachments": (),
    "binding_map": None,
    "bindings_kept": False,
    "seed_turns": 0,
}


def _no_facts() -> dict[str, Any]:
    return {
        **dict.fromkeys(("home_id", "provider_session_id")),
        **dict.fromkeys(("provider_version", "title", "preview", "project", "cwd", "model", "effort"), ""),
        "settings": {},
        "runtime_context": {},
        "worktree_isolated": False,
    }


def _with_all_facts(written: dict[str, Any]) -> dict[str, Any]:
    """In the order in which they are written, so that the text of a snapshot that was read is the same again."""
    return {**written, **{name: fact for name, fact in _no_facts().items() if name not in written}}


class FrozenSegment(NamedTuple):
    """A prefix of a log. ``last_turn`` is the ordinal of the last turn begun through its end."""

    log_id: int
    first_seq: int
    last_seq: int
    first_turn: int
    last_turn: int


class FrozenInteraction(NamedTuple):
    """An interaction that still waits at the boundary; the child shows it as superseded."""

    origin_id: str
    log_id: int
    key: str
    kind: str
    asked_seq: int


class FrozenAttachment(NamedTuple):
    """A file that an event of the prefix points to."""

    log_id: int
    seq: int
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A source frozen at ``boundary`` (inclusive seq; 0 is the empty prefix). Its size does not depend on the history.

    ``digest`` is the running digest at the boundary in hex ("" at 0). ``turn_count`` turns have begun through it, all
    settled. ``session`` holds what a child inherits: ``workspace_id``, ``home_id``, ``provider``,
    ``provider_session_id``, ``provider_version``, ``family_id``, ``title``, ``preview``, ``project``, ``cwd``,
    ``model``, ``effort``, ``settings``, ``runtime_context``, ``visibility``, ``worktree_isolated``; ids are text.
    ``binding_map``, ``bindings_kept`` and ``seed_turns`` say what the source's own inherited turns are bound to.
    """

    source_session_id: uuid.UUID
    history_revision: int
    boundary: int
    digest: str
    turn_count: int
    segments: tuple[FrozenSegment, ...]
    interactions: tuple[FrozenInteraction, ...]
    attachments: tuple[FrozenAttachment, ...]
    session: dict[str, Any]
    binding_map: dict[str, list[Any]] | None
    bindings_kept: bool
    seed_turns: int

    @property
    def shown(self) -> dict[int, int]:
        """The last seq needed of each log."""
        return {segment.log_id: segment.last_seq for segment in self.segments}

    def to_json(self) -> str:
        """The snapshot as ASCII JSON text, always the same for the same snapshot."""
        missing = _no_facts()
        session = {name: fact for name, fact in self.session.items() if name not in missing or fact != missing[name]}
        values = {**asdict(self), "source_session_id": str(self.source_session_id), "session": session}
        said = {name: value for name, value in values.items() if value or name not in _NOTHING}
        return payloads.canonical({**said, "version": VERSION})

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """The snapshot of :meth:`to_json`. Raises ValueError for another version."""
        values = {**_NOTHING, **json.loads(text)}
        if values.pop("version", None) != VERSION:
            raise ValueError("The snapshot has another version.")
        return cls(
            **{
                **values,
                "session": _with_all_facts(values["session"]),
                "source_session_id": uuid.UUID(values["source_session_id"]),
                "segments": tuple(FrozenSegment(*item) for item in values["segments"]),
                "interactions": tuple(FrozenInteraction(*item) for item in values["interactions"]),
                "attachments": tuple(FrozenAttachment(*item) for item in values["attachments"]),
            }
        )

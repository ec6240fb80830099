"""An adapter whose sessions are told by the test: what a provider would show, without any file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sessions.providers.base import (
    Attestation,
    BindingMode,
    DiscoveredSession,
    EventKind,
    HomeRef,
    IdentityMode,
    Json,
    Outcome,
    PointSupport,
    ReadCursor,
    ReadEvent,
    ReadItem,
    ReadRestart,
    ReadTurnEnd,
    ReadTurnStart,
    SessionFacts,
    SessionRef,
    TurnBinding,
    Unreadable,
)

PROVIDER = "told"
START_MS = 1_700_000_000_000

ATTESTATION = Attestation(
    driver_kind="told",
    driver_version="1.0",
    fingerprint="f",
    points=PointSupport.ANY_TURN,
    whole_session=True,
    binding_mode=BindingMode.HOST_COPY,
    identity_mode=IdentityMode.MARKER,
    longest_fork_seconds=5.0,
)


def turn(number: int, *answers: str, prompt: str = "", ended: bool = True) -> list[ReadItem]:
    """One turn that names itself in everything it says."""
    at = START_MS + number * 1000
    binding = TurnBinding(f"t{number}", {"row": number})
    items: list[ReadItem] = [
        ReadTurnStart(at, binding, prompt or f"prompt {number}", "model"),
        ReadEvent(EventKind.MESSAGE_USER, at, {"text": prompt or f"prompt {number}"}),
        *(ReadEvent(EventKind.MESSAGE_ASSISTANT, at, {"text": answer}) for answer in answers or (f"answer {number}",)),
    ]
    return [*items, ReadTurnEnd(at, Outcome.COMPLETED, binding)] if ended else items


@dataclass
class Told:
    """One session. ``items`` is its history; ``cursor_every`` items a cursor is delivered, and one at the end.

    ``stops_after`` items the transcript cannot be read further, as if the process that reads it died there.
    """

    provider_session_id: str
    items: list[ReadItem] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    stamp: int = 1
    updated_at_ms: int = START_MS
    cursor_every: int = 1000
    stops_after: int | None = None
    forgets_cursors: bool = False
    parent: str = ""

    def grow(self, *items: ReadItem) -> None:
        """Append, as an agent does."""
        self.items.extend(items)
        self.stamp += 1

    def rewrite(self, items: Sequence[ReadItem]) -> None:
        """Change what was delivered already, so that no cursor fits any more."""
        self.items = list(items)
        self.stamp += 1
        self.forgets_cursors = True


class ToldAdapter:
    """Serves one or more homes; a home is a list of :class:`Told`."""

    provider = PROVIDER
    label = "Told"

    def __init__(self) -> None:
        self.homes: dict[Path, list[Told]] = {}
        self.reads: list[str] = []
        self.before_read: Callable[[str], None] = lambda provider_session_id: None
        self.missing: set[str] = set()
        self.attested = 0

    def default_home(self, environ: Mapping[str, str]) -> HomeRef | None:
        return None

    def attest(self, home: HomeRef) -> Attestation:
        self.attested += 1
        return ATTESTATION

    def discover(self, home: HomeRef, known: Mapping[str, str]) -> Iterator[DiscoveredSession]:
        if home.path not in self.homes:
            raise Unreadable("home_missing", "The home is gone.")
        for told in sorted(self.homes[home.path], key=lambda told: -told.updated_at_ms):
            if told.provider_session_id not in self.missing and known.get(told.provider_session_id) != str(told.stamp):
                yield _discovered(home, told)

    def present(self, home: HomeRef) -> set[str]:
        return {told.provider_session_id for told in self.homes[home.path]} - self.missing

    def read(self, ref: SessionRef, since: Json | None, after: TurnBinding | None) -> Iterator[ReadItem]:
        self.reads.append(ref.provider_session_id)
        self.before_read(ref.provider_session_id)
        if ref.provider_session_id in self.missing:
            raise Unreadable("source_transcript_missing", "It is gone.")
        told = next(told for told in self.homes[ref.home.path] if told.provider_session_id == ref.provider_session_id)
        start = 0
        if after is not None:
            start = _behind(told, after)
        if since is not None and told.forgets_cursors:
            told.forgets_cursors = False
            yield ReadRestart()
        elif since is not None:
            start = since["at"]
        for index in range(start, len(told.items)):
            if told.stops_after == index:
                raise RuntimeError("the reader died")
            yield told.items[index]
            if (index + 1 - start) % told.cursor_every == 0:
                yield ReadCursor({"at": index + 1}, index + 1, len(told.items))
        yield ReadCursor({"at": len(told.items)}, len(told.items), len(told.items))

    def can_fork(self, attestation: Attestation | None, facts: SessionFacts, binding: TurnBinding | None) -> str:
        return str(facts.extra.get("refuse", ""))

    def explain(self, reason: str) -> str:
        return f"Because of {reason}."

    def resume_command(self, ref: SessionRef) -> str:
        return ""


def _behind(told: Told, after: TurnBinding) -> int:
    for index, item in enumerate(told.items):
        if isinstance(item, ReadTurnEnd) and item.binding.provider_turn_id == after.provider_turn_id:
            return index + 1
    raise Unreadable("inherited_prefix_changed", "That turn is not there any more.")


def _discovered(home: HomeRef, told: Told) -> DiscoveredSession:
    found = DiscoveredSession(
        ref=SessionRef(home, told.provider_session_id, home.path / told.provider_session_id, "/home/dev/project"),
        stamp=str(told.stamp),
        title="",
        preview=f"preview of {told.provider_session_id}",
        created_at_ms=told.updated_at_ms,
        updated_at_ms=told.updated_at_ms,
        size=len(told.items),
        provider_version="1.0",
        parent_provider_session_id=told.parent,
    )
    return replace(found, **told.facts)  # type: ignore[arg-type]

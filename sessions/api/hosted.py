"""Hosted sessions: their history is appended by callers, who may lose an answer and send the same events again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forkhost.kit import clock
from sessions import history, store
from sessions.choices import EventKind
from sessions.digests import event_digest
from sessions.errors import StaleSession
from sessions.models import Session
from sessions.payloads import canonical
from sessions.store import Appended, Entry, NewEvent, TurnEnd, TurnStart, stored_form

HOSTED = "hosted"


def append(session: Session, body: Mapping[str, Any]) -> tuple[Appended, bool]:
    """Append what an ``AppendBody`` says; whether it had been there before.

    With ``expectedLastSeq``, events that already follow that seq are not appended again. Raises StaleSession when other
    events do, and whatever ``store.append`` raises.
    """
    events: Sequence[Mapping[str, Any]] = body["events"]
    entries = [_entry(event) for event in events]
    expected: int | None = body.get("expectedLastSeq")
    try:
        return store.append(session.pk, entries, expected_last_seq=expected), False
    except StaleSession:
        session.refresh_from_db(fields=["last_seq", "turn_count", "history_revision", "seed_length"])
        written = _written(session, expected, entries, [event.get("atUnixMs") for event in events])
        if written is None:
            raise
        return written, True


def _entry(event: Mapping[str, Any]) -> Entry:
    kind = EventKind(event["kind"])
    at_unix_ms = event.get("atUnixMs", clock.now_ms())
    if kind == EventKind.TURN_START:
        return TurnStart(
            at_unix_ms=at_unix_ms,
            prompt=event["prompt"],
            model=event["model"],
            effort=event["effort"],
            payload=event["payload"],
        )
    if kind == EventKind.TURN_END:
        return TurnEnd(at_unix_ms=at_unix_ms, outcome=event["outcome"], usage=event["usage"], payload=event["payload"])
    return NewEvent(kind, at_unix_ms, event["payload"])


def _written(
    session: Session, after: int | None, entries: Sequence[Entry], times: Sequence[int | None]
) -> Appended | None:
    """What an earlier request with these entries wrote after ``after``, None when other events are there.

    A time the caller left out is whatever it was then; everything else is proved by the running digest.
    """
    if after is None or after < session.seed_length or after >= session.last_seq:
        return None
    # A turn that starts while another is open settles that one first, with an event of its own.
    stored = history.events(session, after=after, limit=2 * len(entries))
    digests = iter(history.event_digests(session, after + 1, after + len(stored)))
    previous = history.digest_at(session, after) if after else b""
    seq, turns = after, 0
    rows = iter(stored)
    for entry, given in zip(entries, times, strict=True):
        row = next(rows, None)
        if row is not None and isinstance(entry, TurnStart) and row.kind == EventKind.TURN_END:
            previous, seq, row = next(digests), seq + 1, next(rows, None)
        if row is None:
            return None
        kind, at_unix_ms, payload = stored_form(
            replace(entry, at_unix_ms=given if given is not None else row.at_unix_ms)
        )
        seq, digest = seq + 1, next(digests)
        if digest != event_digest(previous, seq, kind, at_unix_ms, canonical(payload)):
            return None
        previous, turns = digest, row.turn_no or turns
    return Appended(after + 1, seq, turns or session.turn_count)

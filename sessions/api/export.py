"""A whole session as one download, read in small parts and never held in memory.

Everything is ASCII JSON, so that nothing in a transcript can end a line, a string or an encoder.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User

from sessions import history
from sessions.api import projections
from sessions.errors import StaleSession
from sessions.models import Session

CHUNK = 500
CHUNK_BYTES = 4_000_000


class ExportFormat(enum.StrEnum):
    """NDJSON: a ``session`` line, one ``event`` line each, an ``end`` line; without that last one it is cut off."""

    NDJSON = "ndjson"
    JSON = "json"


CONTENT_TYPES = {ExportFormat.NDJSON: "application/x-ndjson", ExportFormat.JSON: "application/json"}


def stream(session: Session, form: ExportFormat, *, user: User) -> Iterator[bytes]:
    """The parts of the download. Raises StaleSession in the middle when the history was rewound meanwhile."""
    head = projections.session_json(session, user=user)
    digest = history.digest_at(session, session.last_seq).hex() if session.last_seq else None
    if form is ExportFormat.NDJSON:
        return _lines(session, head, digest)
    return _document(session, head, digest)


def _lines(session: Session, head: dict[str, Any], digest: str | None) -> Iterator[bytes]:
    yield _json({"type": "session", "session": head}) + b"\n"
    for events in _chunks(session):
        yield b"".join(_json({"type": "event", "event": event}) + b"\n" for event in events)
    yield _json({"type": "end", "count": session.last_seq, "digest": digest}) + b"\n"


def _document(session: Session, head: dict[str, Any], digest: str | None) -> Iterator[bytes]:
    yield b'{"session":' + _json(head) + b',"events":['
    comma = b""
    for events in _chunks(session):
        yield comma + b",".join(_json(event) for event in events)
        comma = b","
    yield b'],"count":' + _json(session.last_seq) + b',"digest":' + _json(digest) + b"}"


def _chunks(session: Session) -> Iterator[list[dict[str, Any]]]:
    after = 0
    while after < session.last_seq:
        if not Session.objects.filter(pk=session.pk, history_revision=session.history_revision).exists():
            raise StaleSession("The history was rewound while it was exported.")
        events = history.events(session, after=after, limit=CHUNK, through=session.last_seq, most_bytes=CHUNK_BYTES)
        if not events:
            raise StaleSession("The history was shortened while it was exported.")
        yield [projections.event_json(event) for event in events]
        after = events[-1].seq


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")

"""A fork request as it is compared: ids normalised, title cleaned, everything that counts under one hash."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forkhost.kit import ids
from operations.points import ForkPoint
from sessions import payloads

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

    from operations.models import Operation

HASH_VERSION = 1
TITLE_LIMIT = 300


class Refused(Exception):
    """The saga says no, and nothing was written.

    ``code`` is stable, ``status`` the HTTP status that fits, ``sentence`` for people. ``field`` is an RFC 6901 pointer
    into the request where one field is to blame; ``retry_after`` seconds where waiting helps; ``operation_id`` names
    the operation that stands in the way.
    """

    def __init__(
        self,
        code: str,
        status: int,
        sentence: str,
        *,
        field: str = "",
        retry_after: int | None = None,
        operation_id: uuid.UUID | None = None,
    ) -> None:
        super().__init__(sentence)
        self.code = str(code)
        self.status = status
        self.sentence = sentence
        self.field = field
        self.retry_after = retry_after
        self.operation_id = operation_id


@dataclass(frozen=True, slots=True)
class PrepareRequest:
    """What a caller asks for, as it came. ``title`` empty or None: the family's counter names the child."""

    workspace_id: uuid.UUID
    user: User | AnonymousUser
    source_session_id: uuid.UUID
    request_id: str
    target_session_id: uuid.UUID | str
    point: ForkPoint
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request that passed its own checks; ``request_hash`` is what a replay has to match."""

    workspace_id: uuid.UUID
    user: User | AnonymousUser
    source_session_id: uuid.UUID
    request_id: str
    request_hash: str
    target_session_id: uuid.UUID
    point: ForkPoint
    title: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """The operation that answers a request; ``replayed``: it was there before."""

    operation: Operation
    replayed: bool


def normalise(request: PrepareRequest) -> Wanted:
    """Check what can be checked without the database. Raises :class:`Refused` (400) naming the field."""
    request_id = _request_id(request.request_id)
    target = _target(request.target_session_id)
    if target == request.source_session_id:
        raise _invalid("/targetAgentSessionId", "The fork needs an id of its own, not the source's.")
    title = _title(request.title)
    return Wanted(
        workspace_id=request.workspace_id,
        user=request.user,
        source_session_id=request.source_session_id,
        request_id=request_id,
        request_hash=_hash(request.source_session_id, target, request.point, title),
        target_session_id=target,
        point=request.point,
        title=title,
    )


def _request_id(text: str) -> str:
    try:
        return ids.normalise_request_id(text)
    except ValueError:
        raise _invalid(
            "/requestId",
            f"The request id has 1 to {ids.REQUEST_ID_LIMIT} printable characters and is not the nil UUID.",
        ) from None


def _target(given: uuid.UUID | str) -> uuid.UUID:
    try:
        return ids.parse_id(str(given))
    except ValueError:
        raise _invalid("/targetAgentSessionId", "The target's id has to be a UUID, and not the nil UUID.") from None


def _title(given: str | None) -> str:
    title = payloads.plain(given or "").strip()
    if len(title) > TITLE_LIMIT:
        raise _invalid("/title", f"The title has at most {TITLE_LIMIT} characters.")
    return title


def _invalid(field: str, sentence: str) -> Refused:
    return Refused("invalid_request", 400, sentence, field=field)


def _hash(source: uuid.UUID, target: uuid.UUID, point: ForkPoint, title: str) -> str:
    facts = {"source": str(source), "target": str(target), "point": point.as_json(), "title": title}
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()

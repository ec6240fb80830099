"""Cursors and limits of every list in the API, and the keyset reads behind them.

A cursor is opaque to callers: the kind of list and the key of the last item shown. A cursor that was not made by the
same kind of list is a 400.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import Q, QuerySet, Subquery
from rest_framework.request import Request

from forkhost.kit.api import LARGEST_INTEGER, query_integer
from forkhost.kit.problems import FieldError, Problem

INVALID_CURSOR = "invalid_cursor"
CURSOR_LIMIT = 400
DEFAULT_LIMIT = 50
MOST_ITEMS = 200


def encode_cursor(kind: str, *key: int | str) -> str:
    """The cursor of a list of this kind after the item with this key."""
    return base64.urlsafe_b64encode(json.dumps([kind, *key]).encode()).rstrip(b"=").decode()


def decode_cursor(text: str, kind: str, *types: type) -> list[Any]:
    """The key, its parts of the given types. Raises a 400 for any other text."""
    if len(text) <= CURSOR_LIMIT:
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            found = json.loads(raw)
        except (binascii.Error, ValueError, RecursionError):
            found = None
        if isinstance(found, list) and len(found) == len(types) + 1 and found[0] == kind:
            key = found[1:]
            if all(_fits(part, wanted) for part, wanted in zip(key, types, strict=True)):
                return key
    raise bad_cursor()


def bad_cursor() -> Problem:
    """The 400 for a cursor that another list made, or nobody."""
    detail = "This cursor was not made by this list."
    return Problem(INVALID_CURSOR, 400, detail, errors=[FieldError("cursor", INVALID_CURSOR, detail)])


def _fits(part: Any, wanted: type) -> bool:
    if wanted is uuid.UUID:
        try:
            return isinstance(part, str) and str(uuid.UUID(part)) == part
        except ValueError:
            return False
    return type(part) is int and 0 <= part <= LARGEST_INTEGER


def limit_of(request: Request, *, default: int = DEFAULT_LIMIT, most: int = MOST_ITEMS) -> int:
    """How many items the caller wants. Raises a 400 naming ``limit``."""
    return query_integer(request, "limit", default=default, least=1, most=most)


def newest_first(
    rows: QuerySet[Any], request: Request, *, kind: str, time: str, moment: bool = False
) -> tuple[list[Any], str | None]:
    """One page of rows by (``time``, id) descending, both from the row.

    ``time`` is a column of Unix milliseconds; with ``moment`` one of aware times, which never changes in a row and whose
    rows stay.
    """
    limit = limit_of(request)
    if (cursor := request.query_params.get("cursor")) is not None:
        rows = _after_moment(rows, cursor, kind, time) if moment else _after_number(rows, cursor, kind, time)
    page = list(rows.order_by(f"-{time}", "-pk")[: limit + 1])
    if len(page) <= limit:
        return page, None
    page = page[:limit]
    key = [] if moment else [getattr(page[-1], time)]
    return page, encode_cursor(kind, *key, str(page[-1].pk))


def _after_number(rows: QuerySet[Any], cursor: str, kind: str, time: str) -> QuerySet[Any]:
    at, last = decode_cursor(cursor, kind, int, uuid.UUID)
    # The first condition alone bounds the index scan; PostgreSQL does not see that in the second.
    return rows.filter(**{f"{time}__lte": at}).filter(Q(**{f"{time}__lt": at}) | Q(pk__lt=uuid.UUID(last)))


def _after_moment(rows: QuerySet[Any], cursor: str, kind: str, time: str) -> QuerySet[Any]:
    """The time is compared as it is stored: SQLite keeps times as text, of more or fewer digits by who wrote them."""
    (last,) = decode_cursor(cursor, kind, uuid.UUID)
    shown = rows.model._default_manager.filter(pk=uuid.UUID(last))
    if not shown.exists():
        raise bad_cursor()
    at = Subquery(shown.values(time)[:1])
    return rows.filter(Q(**{f"{time}__lt": at}) | Q(**{time: at}, pk__lt=uuid.UUID(last)))


def listed(items: Sequence[Any], next_cursor: str | None) -> dict[str, Any]:
    """The body of every list."""
    return {"items": list(items), "nextCursor": next_cursor}

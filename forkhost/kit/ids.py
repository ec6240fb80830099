"""Ids as callers write them.

Our own ids, and request ids that look like one, compare as UUIDs in any case; every other id compares byte for byte.
"""

from __future__ import annotations

import re
import unicodedata
import uuid

from django.urls.converters import UUIDConverter

NIL = uuid.UUID(int=0)
REQUEST_ID_LIMIT = 255

# Controls, formats, surrogates, private use, and every separator but the plain space.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"})

_SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def parse_id(text: str) -> uuid.UUID:
    """One of our ids, in any case, with its hyphens. Raises ValueError for anything else, "" and the nil UUID too."""
    if not _SHAPE.fullmatch(text):
        raise ValueError("not a UUID")
    value = uuid.UUID(text)
    if value == NIL:
        raise ValueError("the nil UUID names nothing")
    return value


def normalise_request_id(text: str) -> str:
    """A caller's replay key as it is compared: lower case when UUID-shaped, unchanged otherwise.

    Raises ValueError unless it has 1 to 255 printable characters and is not the nil UUID.
    """
    if not 1 <= len(text) <= REQUEST_ID_LIMIT or not _printable(text):
        raise ValueError(f"a request id has 1 to {REQUEST_ID_LIMIT} printable characters")
    return str(parse_id(text)) if _SHAPE.fullmatch(text) else text


def _printable(text: str) -> bool:
    """Unlike ``str.isprintable``, what Unicode assigns later counts, so that an id is good on every Python alike."""
    return all(mark == " " or unicodedata.category(mark) not in _INVISIBLE for mark in text)


class IdConverter(UUIDConverter):
    """The path converter ``id``: one of our ids in any case; a miss is a 404."""

    regex = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

    def to_python(self, value: str) -> uuid.UUID:
        """The id; ValueError makes Django try the next route."""
        return parse_id(value)

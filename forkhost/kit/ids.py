"""Ids as callers write them.

Our own ids, and request ids that look like one, compare as UUIDs in any case; every other id compares byte for byte.
"""

from __future__ import annotations

import re
import uuid

from django.urls.converters import UUIDConverter

NIL = uuid.UUID(int=0)
REQUEST_ID_LIMIT = 255

# Not controls, invisible marks, private use, or any space but the plain one. Spelled out, because what Unicode calls
# printable differs from one version of Python to the next.
_INVISIBLE = (
    r"\u0000-\u001f\u007f-\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ue000-\uf8ff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U0010ffff"
)
REQUEST_ID_PATTERN = f"^[^{_INVISIBLE}]+$"

_UNPRINTABLE = re.compile(rf"[\ud800-\udfff{_INVISIBLE}]")
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
    if not 1 <= len(text) <= REQUEST_ID_LIMIT or _UNPRINTABLE.search(text):
        raise ValueError(f"a request id has 1 to {REQUEST_ID_LIMIT} printable characters")
    return str(parse_id(text)) if _SHAPE.fullmatch(text) else text


class IdConverter(UUIDConverter):
    """The path converter ``id``: one of our ids in any case; a miss is a 404."""

    regex = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

    def to_python(self, value: str) -> uuid.UUID:
        """The id; ValueError makes Django try the next route."""
        return parse_id(value)

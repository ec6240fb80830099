"""The closed list of typed references in payloads. Free text and tool output are never looked at.

References are numbers and keys of the log itself, the same in every session that shows the event, so a fork neither
rewrites nor checks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sessions import payloads
from sessions.errors import UnknownReference

_TYPES = {"turn": "ordinal", "event": "seq"}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_KEY = 600


def check(payload: dict[str, Any], *, last_seq: int, turn_count: int) -> None:
    """Check ``payload["references"]`` against a history that ends at ``last_seq``. Raises :class:`UnknownReference`."""
    given = payload.get("references", [])
    if not isinstance(given, list):
        raise UnknownReference("references has to be a list.")
    seen: set[tuple[str, int]] = set()
    for reference in given:
        kind = reference.get("type") if isinstance(reference, dict) else None
        field = _TYPES.get(kind) if isinstance(kind, str) else None
        if not isinstance(kind, str) or field is None or set(reference) != {"type", field}:
            raise UnknownReference(f"{reference!r} is no typed reference that is known here.")
        number = reference[field]
        last = turn_count if kind == "turn" else last_seq
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= last:
            raise UnknownReference(f"There is no {kind} {number!r} before this event.")
        if (kind, number) in seen:
            raise UnknownReference(f"The {kind} {number} is referred to twice.")
        seen.add((kind, number))


def interaction_key(payload: dict[str, Any]) -> str:
    """The provider's id of the interaction that an event asks or closes. Raises :class:`UnknownReference`."""
    key = payload.get("interactionId")
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY or not payloads.storable(key):
        raise UnknownReference("interactionId has to be a text of 1 to 600 characters.")
    return key


def stored_files(payload: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Digest (hex) and name of each file in ``payload["images"]`` that is addressed by content."""
    images = payload.get("images")
    for image in images if isinstance(images, list) else ():
        digest = image.get("sha256") if isinstance(image, dict) else None
        if isinstance(digest, str) and _SHA256.fullmatch(digest):
            yield digest, payloads.plain(str(image.get("name", "")))

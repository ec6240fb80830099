"""Event payloads as text, and text that both databases can hold.

A payload is stored once, as JSON text in ASCII, and never written anew: its digest covers these very bytes. The standard
encoder is used alone because the faster one writes NaN as null and refuses lone surrogates and large integers.
"""

from __future__ import annotations

import json
import re
from typing import Any

from sessions.errors import PayloadRefused

_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"), check_circular=True)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ESCAPED_UNSTORABLE = re.compile(r"\\u(?:0000|d[89a-f])")


def canonical(payload: dict[str, Any]) -> str:
    """``payload`` as ASCII JSON text, keys in their given order. Raises :class:`PayloadRefused`."""
    if not isinstance(payload, dict):
        raise PayloadRefused("An event's payload has to be a JSON object.")
    try:
        return _ENCODER.encode(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadRefused(f"An event's payload cannot be written as JSON: {error}.") from error


def parse(text: str) -> dict[str, Any]:
    """The payload of stored ``text``; integers of any size and lone surrogates come back as they were."""
    payload: dict[str, Any] = json.loads(text)
    return payload


def plain(text: str) -> str:
    """``text`` for a column of its own: NUL and lone surrogates, which PostgreSQL refuses, become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def storable(text: str) -> bool:
    """Whether a column can hold ``text`` as it is."""
    return _UNSTORABLE.search(text) is None


def clip(text: str, length: int) -> str:
    """``plain(text)`` cut to at most ``length`` characters, the last one an ellipsis when something was cut."""
    text = plain(text[: length + 1])
    return text if len(text) <= length else text[: length - 1] + "…"


def plain_json(value: dict[str, Any]) -> dict[str, Any]:
    """``value`` for a JSON column: as it is where possible, else with every string made plain.

    Raises :class:`PayloadRefused` like :func:`canonical`.
    """
    if not _ESCAPED_UNSTORABLE.search(canonical(value)):
        return value
    cleaned: dict[str, Any] = _clean(value)
    return cleaned


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value

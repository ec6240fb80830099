"""JSON as the public API takes and gives it.

In: UTF-8, bounded, objects without duplicate members, finite numbers. Out: ASCII only, because a transcript may hold
lone surrogates, which no UTF-8 encoder takes, and line separators that end a line for some readers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

BODY_LIMIT = 8 * 1024 * 1024
DEPTH_LIMIT = 200


class ApiJSONRenderer(JSONRenderer):
    """``application/json``, ASCII."""

    ensure_ascii = True


class ApiJSONParser(BaseParser):
    """``application/json``; raises ParseError with a sentence, or RequestDataTooBig beyond 8 MiB."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        raw = stream.read(BODY_LIMIT + 1)
        if len(raw) > BODY_LIMIT:
            raise RequestDataTooBig
        try:
            body = json.loads(
                raw.decode("utf-8"), parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unique
            )
        except RecursionError:
            raise ParseError("The JSON is nested too deeply.") from None
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {error}") from None
        if _deeper_than(body, DEPTH_LIMIT):
            raise ParseError("The JSON is nested too deeply.")
        return body


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object names the same member twice")
    return members


def _deeper_than(value: Any, limit: int) -> bool:
    """Whether arrays and objects are nested deeper than ``limit``; walks level by level, so it cannot overflow itself."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True

"""Text as the search index holds it: words that are the same on both databases, and the same in what is looked for.

A word is a run of letters and digits in any script, without case and accents; every character of a script that writes no
spaces is a word of its own. The databases' own word breaking never sees anything else.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sessions.choices import EventKind

WORD_LENGTH = 64
# What is indexed of one event: a tool's output may be a whole file.
TEXT_LIMIT = 50_000
MOST_WORDS = 12
# A shorter word is looked for as it is, a longer one may go on.
PREFIX_LENGTH = 3
SNIPPET_BEFORE, SNIPPET_LENGTH = 60, 220

_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{_NO_SPACES}]|[^\\W_{_NO_SPACES}]+")
# Members of payloads that name things instead of saying anything.
_NAMES = frozenset({"callId", "id", "interactionId", "mediaType", "outcome", "sha256", "type"})
_UNINDEXED = frozenset({EventKind.REASONING.value, EventKind.TURN_END.value})


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a snippet; ``found`` says that it is one of the words looked for. Plain text, never HTML."""

    text: str
    found: bool


def normalised(text: str) -> str:
    """``text`` as words with single spaces between them."""
    return " ".join(filter(None, (_folded(match.group()) for match in _WORD.finditer(text))))


def asked(text: str) -> list[str]:
    """The words somebody looks for, at most twelve, none twice."""
    return list(dict.fromkeys(normalised(text).split()))[:MOST_WORDS]


def workspace_word(workspace_id: uuid.UUID) -> str:
    """The word that every document of the workspace holds."""
    return f"workspace{workspace_id.hex}"


def is_indexed(kind: str) -> bool:
    """Whether events of this kind are looked through: what was said and done, not what an agent thought."""
    return kind not in _UNINDEXED


def event_text(kind: str, payload: dict[str, Any]) -> str:
    """What of an event is looked through, at most 50,000 characters."""
    if kind == EventKind.TURN_START:
        prompt = payload.get("prompt")
        return prompt if isinstance(prompt, str) else ""
    pieces: list[str] = []
    room = TEXT_LIMIT
    for text in _strings(payload):
        pieces.append(text[:room])
        room -= len(text) + 1
        if room <= 0:
            break
    return "\n".join(pieces)


def snippet(text: str, wanted: list[str]) -> list[Piece]:
    """The surroundings of the first place where one of the words stands; the beginning when none does."""
    first = next((match.start() for match in _WORD.finditer(text) if _holds(_folded(match.group()), wanted)), None)
    start = max(0, first - SNIPPET_BEFORE) if first is not None else 0
    end = min(len(text), start + SNIPPET_LENGTH)
    pieces: list[Piece] = []
    at = start
    # The text may be very long: behind what is shown, nothing is looked for.
    for match in _WORD.finditer(text, first if first is not None else end):
        if match.end() > end:
            break
        if _holds(_folded(match.group()), wanted):
            pieces += [Piece(text[at : match.start()], False), Piece(match.group(), True)]
            at = match.end()
    pieces.append(Piece(text[at:end], False))
    shown = [Piece("…", False)] if start else []
    shown += [Piece(re.sub(r"\s+", " ", piece.text), piece.found) for piece in pieces if piece.text]
    return [*shown, Piece("…", False)] if end < len(text) else shown


def _holds(word: str, wanted: list[str]) -> bool:
    return any(word == one or (len(one) >= PREFIX_LENGTH and word.startswith(one)) for one in wanted)


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()[:WORD_LENGTH]
    plain = (mark for mark in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(mark))
    return "".join(mark for mark in plain if mark.isalnum())[:WORD_LENGTH]


def _strings(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if item:
                yield item
        elif isinstance(item, dict):
            waiting += reversed([member for name, member in item.items() if name not in _NAMES])
        elif isinstance(item, list):
            waiting += reversed(item)

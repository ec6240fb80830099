"""Lines of a file as bytes, in bounded memory. Only ``\\n`` ends a line: transcripts hold every other separator raw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sessions.providers.base import Unreadable

CHUNK = 1 << 16
LONGEST = 64 << 20


class Line(NamedTuple):
    """One complete line without its end. ``data`` is None when it was longer than can be held."""

    number: int
    start: int
    end: int
    data: bytes | None


def lines(path: Path, start: int, end: int, first_number: int = 1) -> Iterator[Line]:
    """The complete lines between two byte offsets; an unfinished last line is left for later.

    Raises :class:`Unreadable` when the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            number, position, left = first_number, start, end - start
            held = bytearray()
            dropped = 0
            while left > 0 and (chunk := file.read(min(CHUNK, left))):
                left -= len(chunk)
                *complete, rest = chunk.split(b"\n")
                for piece in complete:
                    length = dropped + len(held) + len(piece) + 1
                    data = None if dropped else bytes(held + piece) if held else piece
                    yield Line(number, position, position + length, data)
                    number, position, dropped = number + 1, position + length, 0
                    held.clear()
                if dropped or len(held) + len(rest) > LONGEST:
                    dropped += len(held) + len(rest)
                    held.clear()
                else:
                    held += rest
    except OSError as error:
        raise Unreadable("source_transcript_missing", f"{path.name} cannot be read: {error.strerror}.") from error

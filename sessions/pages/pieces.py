"""Which records of a turn a page reads: all of them, or its beginning and its end; bounded by number and by size.

Sizes are asked for before anything is read, so that an agent that printed a whole file a hundred times costs a page no
more than one that did not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sessions import history
from sessions.history import TurnView
from sessions.models import Session

HEAD_EVENTS, HEAD_BYTES = 60, 600_000
TAIL_EVENTS, TAIL_BYTES = 25, 300_000
BETWEEN_EVENTS, BETWEEN_BYTES = 40, 300_000
# However large: the question and how the turn begins; the last answer and the turn's end.
LEAST = 2

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pieces:
    """A turn's records from its first through ``head`` and from ``tail`` through ``last``, then some through ``between``.

    ``tail`` follows ``head`` when nothing is left out. What lies between the turn and the next ends at ``end``.
    """

    turn: TurnView
    head: int
    tail: int
    last: int
    between: int
    end: int
    size: int

    @property
    def left_out(self) -> int:
        """How many of the turn's records are not read."""
        return self.tail - self.head - 1

    @property
    def ranges(self) -> list[Range]:
        """What is read, in order."""
        found = [(self.turn.first_seq, self.head), (self.tail, self.last), (self.last + 1, self.between)]
        return [each for each in found if each[0] <= each[1]]

    @property
    def count(self) -> int:
        """How many records of the turn are read."""
        return self.last - self.turn.first_seq + 1 - self.left_out


def pieces(session: Session, turns: Sequence[TurnView], ends: Sequence[int]) -> list[Pieces]:
    """What to read of each turn; ``ends`` are the last seqs before the turns that follow them. One query of sizes."""
    lasts = [min(turn.last_seq or end, end) for turn, end in zip(turns, ends, strict=True)]
    wanted: list[Range] = []
    for turn, last, end in zip(turns, lasts, ends, strict=True):
        wanted.append((turn.first_seq, min(last, turn.first_seq + HEAD_EVENTS - 1)))
        wanted.append((max(turn.first_seq, last - TAIL_EVENTS + 1), last))
        wanted.append((last + 1, min(end, last + BETWEEN_EVENTS)))
    sizes = history.payload_sizes(session, wanted)
    return [_pieces(turn, last, end, sizes) for turn, last, end in zip(turns, lasts, ends, strict=True)]


def _pieces(turn: TurnView, last: int, end: int, sizes: Mapping[int, int]) -> Pieces:
    ending = range(last, max(turn.first_seq, last - TAIL_EVENTS + 1) - 1, -1)
    tail = last - _fitting(ending, sizes, TAIL_BYTES, LEAST) + 1
    beginning = range(turn.first_seq, min(tail, turn.first_seq + HEAD_EVENTS))
    head = turn.first_seq + _fitting(beginning, sizes, HEAD_BYTES, LEAST) - 1
    following = range(last + 1, min(end, last + BETWEEN_EVENTS) + 1)
    between = last + _fitting(following, sizes, BETWEEN_BYTES, 1)
    read = (*range(turn.first_seq, head + 1), *range(tail, between + 1))
    return Pieces(turn, head, tail, last, between, end, sum(sizes.get(seq, 0) for seq in read))


def _fitting(seqs: Iterable[int], sizes: Mapping[int, int], room: int, least: int) -> int:
    """How many of the records fit, one after another; as many as ``least`` always do."""
    count = 0
    for seq in seqs:
        room -= sizes.get(seq, 0)
        if count >= least and room < 0:
            break
        count += 1
    return count

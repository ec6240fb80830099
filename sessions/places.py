"""A place in the histories as one number: which log, which seq in it."""

from __future__ import annotations

from typing import NamedTuple

SEQ_BITS = 32
LAST_SEQ = (1 << SEQ_BITS) - 1
# The place of the title of the session that writes to a log.
TITLE = 0


class Place(NamedTuple):
    """An event of a log; seq 0 is the title of the session that writes to it."""

    log_id: int
    seq: int

    @property
    def number(self) -> int:
        """The place as one number of 63 bits, in the order of logs and seqs."""
        return (self.log_id << SEQ_BITS) | self.seq


def place_of(number: int) -> Place:
    """The place that a number means."""
    return Place(number >> SEQ_BITS, number & LAST_SEQ)

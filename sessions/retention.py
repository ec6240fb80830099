"""What unfinished forks still need of sessions and logs that somebody wants to purge.

Sessions stand below operations, so operations register their answer here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Needs:
    """``session``: the session itself is needed, so its purge has to wait. ``through``: log id to the last seq needed.

    ``Snapshot.shown`` of each operation that is open or unknown is the second part.
    """

    session: bool = False
    through: Mapping[int, int] = field(default_factory=dict)


Keeper = Callable[[uuid.UUID | None, Collection[int]], Needs]

_keepers: list[Keeper] = []


def register(keeper: Keeper) -> None:
    """Ask ``keeper`` from now on; registering it again changes nothing.

    It is called inside the transaction of a purge, which holds the session's and the logs' rows, with the session's id
    (None when only logs are swept) and the ids of those logs. It must not lock rows of sessions or logs.
    """
    if keeper not in _keepers:
        _keepers.append(keeper)


def unregister(keeper: Keeper) -> None:
    """Stop asking ``keeper``."""
    if keeper in _keepers:
        _keepers.remove(keeper)


def needs(session_id: uuid.UUID | None, log_ids: Collection[int]) -> Needs:
    """What all keepers need together."""
    answers = [keeper(session_id, log_ids) for keeper in _keepers]
    through: dict[int, int] = {}
    for answer in answers:
        for log_id, seq in answer.through.items():
            through[log_id] = max(seq, through.get(log_id, 0))
    return Needs(session=any(answer.session for answer in answers), through=through)

"""The branch of the row tree that the agent itself would continue."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from sessions.providers.claude.roles import RowRole
from sessions.providers.claude.transcripts import Row


@dataclass(slots=True)
class Branch:
    """Rows of the canonical branch in file order. ``broken`` holds the uuids of rows whose parent could not be found.

    ``reaches`` names the row outside the given ones where the branch begins ("" for the root).
    """

    rows: list[Row] = field(default_factory=list)
    broken: frozenset[str] = frozenset()
    reaches: str = ""


def canonical(rows: Sequence[Row], root: str = "") -> Branch:
    """The branch that ends in the row the agent would resume from.

    Of the rows nobody points to, the one whose nearest message of a person or the model stands last in the file wins:
    rewinding appends a second branch to the same file, and the abandoned one stays. ``root`` is the uuid of the row
    just before ``rows`` when these are only the new part of a file.

    A row whose parent was lost to damage is shown after the row before it in the file, and named in ``broken``.
    """
    by_uuid = {row.uuid: row for row in rows}
    place = {row.uuid: position for position, row in enumerate(rows)}
    tip = _tip(rows, by_uuid, place)
    if tip is None:
        return Branch()
    chain: list[Row] = []
    broken: set[str] = set()
    reaches = ""
    seen: set[str] = set()
    row: Row | None = tip
    while row is not None and row.uuid not in seen:
        seen.add(row.uuid)
        chain.append(row)
        parent = row.parent
        if parent is None:
            break
        if parent == root:
            reaches = root
            break
        following = by_uuid.get(parent)
        if following is None:
            broken.add(row.uuid)
            before = place[row.uuid] - 1
            following = rows[before] if before >= 0 else None
        row = following
    chain.reverse()
    chain.extend(_parallel(rows, chain, seen))
    chain.sort(key=lambda kept: kept.offset)
    return Branch(chain, frozenset(broken), reaches)


def _tip(rows: Sequence[Row], by_uuid: dict[str, Row], place: dict[str, int]) -> Row | None:
    pointed_at = {row.parent for row in rows}
    best: Row | None = None
    best_rank = (-1, -1)
    for terminal in rows:
        if terminal.uuid in pointed_at:
            continue
        message = _nearest_message(terminal, by_uuid)
        rank = (place[message.uuid] if message else -1, place[terminal.uuid])
        if best is None or rank > best_rank:
            best, best_rank = terminal, rank
    return best


def _nearest_message(row: Row | None, by_uuid: dict[str, Row]) -> Row | None:
    seen: set[str] = set()
    while row is not None and row.uuid not in seen:
        if row.rowtype in ("user", "assistant") and row.role is not RowRole.META:
            return row
        seen.add(row.uuid)
        row = by_uuid.get(row.parent) if row.parent else None
    return None


def _parallel(rows: Sequence[Row], chain: Sequence[Row], seen: set[str]) -> list[Row]:
    """Calls and results that a walk along parents misses because several tools ran at once.

    Each result hangs on its own call, so only one of them lies on the walk. A message whose next row is no result was
    left by a rewind: its other rows belong to the abandoned branch.
    """
    groups = {
        row.message_id
        for row, following in itertools.pairwise(chain)
        if row.message_id and following.role is RowRole.RESULT
    }
    if not groups:
        return []
    added = [row for row in rows if row.message_id in groups and row.uuid not in seen]
    calls = {row.uuid for row in added} | {row.uuid for row in chain if row.message_id in groups}
    added += [row for row in rows if row.role is RowRole.RESULT and row.parent in calls and row.uuid not in seen]
    return added

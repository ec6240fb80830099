"""The branch of the row tree that the agent itself would continue."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from sessions.providers.claude.index import ELSEWHERE, NO_PARENT, Picked, Rows
from sessions.providers.claude.roles import RowRole

# What a walk notes about a row.
_POINTED_AT = 1
_ON_BRANCH = 2
_ANSWERED = 4


@dataclass(frozen=True, slots=True)
class Branch:
    """Rows of the canonical branch in file order. ``broken`` are the indexes of rows whose parent could not be found.

    ``reaches`` names the row outside the given ones where the branch begins ("" for the root).
    """

    rows: Picked
    broken: frozenset[int] = frozenset()
    reaches: str = ""


def canonical(rows: Rows, root: str = "", *, first: int | None = None) -> Branch:
    """The branch that ends in the row the agent would resume from.

    Of the rows nobody points to, the one whose nearest message of a person or the model stands last in the file wins:
    rewinding appends a second branch to the same file, and the abandoned one stays. ``root`` is the uuid of the row
    just before ``rows`` when these are only the new part of a file. ``first`` leaves out all rows but that many.

    A row whose parent was lost to damage is shown after the row before it in the file, and named in ``broken``.
    """
    return _Walk(rows, len(rows) if first is None else first).branch(root)


class _Walk:
    """One look at the tree, with a byte of notes for each row."""

    def __init__(self, rows: Rows, count: int) -> None:
        self.rows = rows
        self.notes = bytearray(count)

    def branch(self, root: str) -> Branch:
        tip = self._tip()
        if tip is None:
            return Branch(Picked(self.rows, ()))
        broken: set[int] = set()
        reaches = ""
        index: int = tip
        while index >= 0 and not self.notes[index] & _ON_BRANCH:
            self.notes[index] |= _ON_BRANCH
            parent = self._parent(index)
            if parent == ELSEWHERE:
                if root and self.rows.parent_elsewhere(index) == root:
                    reaches = root
                    break
                broken.add(index)
                parent = index - 1
            if parent >= 0 and self.rows.role(index) is RowRole.RESULT:
                self.notes[parent] |= _ANSWERED
            index = parent
        self._add_parallel()
        return Branch(Picked(self.rows, self._on_branch()), frozenset(broken), reaches)

    def _parent(self, index: int) -> int:
        parent = self.rows.parent(index)
        return parent if parent < len(self.notes) else ELSEWHERE

    def _on_branch(self) -> Sequence[int]:
        if all(note & _ON_BRANCH for note in self.notes):
            return range(len(self.notes))
        return array("I", (index for index, note in enumerate(self.notes) if note & _ON_BRANCH))

    def _tip(self) -> int | None:
        for index in range(len(self.notes)):
            if (parent := self._parent(index)) >= 0:
                self.notes[parent] |= _POINTED_AT
        ends = [index for index, note in enumerate(self.notes) if not note & _POINTED_AT]
        ends.sort(key=lambda index: (self._nearest_message(index), index))
        while ends and self._is_old(ends[-1]):
            ends.pop()
        return ends[-1] if ends else None

    def _is_old(self, end: int) -> bool:
        """Whether the row was only written once more: the history goes on from where it stood before."""
        copies = self.rows.copies(end) if len(self.notes) == len(self.rows) else ()
        return any(self.notes[index] & _POINTED_AT for index in copies)

    def _nearest_message(self, index: int) -> int:
        seen: set[int] = set()
        while index >= 0 and index not in seen:
            if self.rows.speaks(index):
                return index
            seen.add(index)
            index = self._parent(index)
        return NO_PARENT

    def _add_parallel(self) -> None:
        """Calls and results that a walk along parents misses because several tools ran at once.

        Each result hangs on its own call, so only one of them lies on the walk. A message whose next row is no result was
        left by a rewind: its other rows belong to the abandoned branch.
        """
        beside = [index for index, note in enumerate(self.notes) if not note & _ON_BRANCH]
        calls = {index: self.rows.parent(index) for index in beside if self.rows.role(index) is RowRole.RESULT}
        wanted = {*beside, *calls.values()}
        message = {index: first for index, first in enumerate(self.rows.messages()) if index in wanted}
        candidates = {first for first in message.values() if first is not None}
        answered = {
            first
            for note, first in zip(self.notes, self.rows.messages(), strict=False)
            if note & _ANSWERED and first in candidates
        }
        added = [index for index in beside if message.get(calls.get(index, index)) in answered]
        uuids = {self.rows.uuid(index) for index in added}
        if uuids:
            # What stands in the file twice is shown once.
            uuids -= {self.rows.uuid(index) for index, note in enumerate(self.notes) if note & _ON_BRANCH}
        for index in added:
            if self.rows.uuid(index) in uuids:
                self.notes[index] |= _ON_BRANCH

"""Where the rows of a transcript lie and how they hang together, in about thirty bytes a row.

A transcript of two gigabytes has a million rows. What nearly every row says, that it hangs below the row before it and
stands in the next line, is not stored; only the exceptions are.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

from sessions.providers.claude.roles import RowRole, role_of

NO_PARENT = -1
ELSEWHERE = -2

_ROLES = tuple(RowRole)
_ROLE_NUMBER = {role: number for number, role in enumerate(_ROLES)}
_ROLE = 0x0F
_SPEAKS = 0x10
_LINK = 0x20
_NAMED = 0x40
_SAME_MESSAGE = 0x80

# Parents and messages among the latest rows are found at once; all other parents by one look through the whole index.
_RECENT_ROWS = 4096
_RECENT_MESSAGES = 64
_PACKED = 16


class Row(NamedTuple):
    """One chain row. ``place`` counts the chain rows; ``number`` counts lines from 1; ``end`` is behind the line end.

    ``link`` marks rows of old files that only join others.
    """

    place: int
    number: int
    offset: int
    end: int
    uuid: str
    role: RowRole
    link: bool

    @property
    def visible(self) -> bool:
        """Whether the row says something to a person; hidden rows only carry the chain on."""
        return self.role is not RowRole.HIDDEN and self.role is not RowRole.META


class Rows(Sequence[Row]):
    """Chain rows in file order. Once all are added, :meth:`settle` has to be called."""

    def __init__(self, lines_before: int = 0) -> None:
        self._kinds = bytearray()
        self._offsets = array("Q")
        self._lengths = array("I")
        self._uuids = bytearray()
        self._odd_uuids: dict[int, str] = {}
        self._parent_at, self._parents = array("I"), array("i")
        self._elsewhere: dict[int, str] = {}
        self._skips_at, self._skips = array("I"), array("I")
        self._next_number = lines_before + 1
        self._regrouped: dict[int, int] = {}
        self._lines_before = lines_before
        self._last_uuid: str | None = None
        self._last_message = ""
        self._recent: dict[str, int] = {}
        self._messages: dict[str, int] = {}

    # Adding ---------------------------------------------------------------------------------------------------------

    def add(self, number: int, offset: int, end: int, uuid: str, data: dict[str, Any]) -> None:
        """Add the next row: the line it stands in, and what it says."""
        index = len(self._kinds)
        kind, role = data.get("type"), role_of(data)
        flags = _ROLE_NUMBER[role]
        if kind in ("user", "assistant") and role is not RowRole.META:
            flags |= _SPEAKS
        if kind == "progress":
            flags |= _LINK
        if kind == "assistant":
            flags |= self._message_flags(index, message_id_of(data))
        self._kinds.append(flags)
        self._offsets.append(offset)
        self._lengths.append(end - offset)
        if number != self._next_number:
            self._skips_at.append(index)
            self._skips.append(number - 1 - self._lines_before - index)
        self._next_number = number + 1
        self._add_uuid(index, uuid)
        self._add_parent(index, parent_of(data))
        self._last_uuid = uuid
        self._remember(uuid, index)

    def _message_flags(self, index: int, message_id: str) -> int:
        if not message_id:
            return 0
        if message_id == self._last_message:
            return _NAMED | _SAME_MESSAGE
        self._last_message = message_id
        earlier = self._messages.get(message_id)
        if earlier is not None:
            self._regrouped[index] = earlier
        else:
            self._messages[message_id] = index
            if len(self._messages) > _RECENT_MESSAGES:
                del self._messages[next(iter(self._messages))]
        return _NAMED

    def _add_uuid(self, index: int, uuid: str) -> None:
        packed = _packed(uuid)
        if packed is None:
            self._odd_uuids[index] = uuid
        self._uuids += packed or bytes(_PACKED)

    def _add_parent(self, index: int, parent: str | None) -> None:
        if parent == self._last_uuid:
            return
        found = NO_PARENT if parent is None else self._recent.get(parent, ELSEWHERE)
        self._parent_at.append(index)
        self._parents.append(found)
        if found == ELSEWHERE and parent is not None:
            self._elsewhere[index] = parent

    def _remember(self, uuid: str, index: int) -> None:
        self._recent.pop(uuid, None)
        self._recent[uuid] = index
        if len(self._recent) > 2 * _RECENT_ROWS:
            for old in list(itertools.islice(self._recent, _RECENT_ROWS)):
                del self._recent[old]

    def settle(self) -> None:
        """Find the parents that are not among the rows just before."""
        self._recent.clear()
        self._messages.clear()
        wanted = set(self._elsewhere.values())
        if not wanted:
            return
        found = {uuid: index for index in range(len(self)) if (uuid := self.uuid(index)) in wanted}
        for position, index in enumerate(self._parent_at):
            if self._parents[position] == ELSEWHERE and self._elsewhere[index] in found:
                self._parents[position] = found[self._elsewhere.pop(index)]

    # Looking --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._kinds)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return Picked(self, range(*index.indices(len(self))))
        offset, kind = self._offsets[index], self._kinds[index]
        return Row(
            index,
            self._number(index),
            offset,
            offset + self._lengths[index],
            self.uuid(index),
            _ROLES[kind & _ROLE],
            bool(kind & _LINK),
        )

    def _number(self, index: int) -> int:
        position = bisect_right(self._skips_at, index)
        skipped = self._skips[position - 1] if position else 0
        return self._lines_before + index + 1 + skipped

    def uuid(self, index: int) -> str:
        """The uuid of a row."""
        if index in self._odd_uuids:
            return self._odd_uuids[index]
        return _unpacked(self._uuids[index * _PACKED : (index + 1) * _PACKED])

    def role(self, index: int) -> RowRole:
        """The role of a row."""
        return _ROLES[self._kinds[index] & _ROLE]

    def speaks(self, index: int) -> bool:
        """Whether a person or the model says something in the row."""
        return bool(self._kinds[index] & _SPEAKS)

    def offset(self, index: int) -> int:
        """Where the row begins in the file."""
        return self._offsets[index]

    def parent(self, index: int) -> int:
        """The index of the row before it on its branch, ``NO_PARENT`` for a root, ``ELSEWHERE`` when it is not here."""
        position = bisect_left(self._parent_at, index)
        if position < len(self._parent_at) and self._parent_at[position] == index:
            return self._parents[position]
        return index - 1

    def parent_elsewhere(self, index: int) -> str:
        """The uuid of a parent that is not here."""
        return self._elsewhere.get(index, "")

    def hang_below(self, uuid: str) -> bool:
        """Whether every row hangs below another one here or below ``uuid``."""
        if NO_PARENT in self._parents or (len(self) and self.parent(0) == NO_PARENT):
            return False
        return all(parent == uuid for parent in self._elsewhere.values())

    def find(self, uuid: str) -> int | None:
        """The index of the last row with that uuid."""
        return next((index for index in reversed(range(len(self))) if self.uuid(index) == uuid), None)

    def copies(self, index: int) -> Iterator[int]:
        """The other rows that have the uuid of this one."""
        if index in self._odd_uuids:
            odd = self._odd_uuids[index]
            yield from (each for each, uuid in self._odd_uuids.items() if uuid == odd and each != index)
            return
        packed = self._uuids[index * _PACKED : (index + 1) * _PACKED]
        at = self._uuids.find(packed)
        while at >= 0:
            found, inside = divmod(at, _PACKED)
            if not inside and found != index and found not in self._odd_uuids:
                yield found
            at = self._uuids.find(packed, at + 1)

    def messages(self) -> Iterator[int | None]:
        """For each row which message of the model it is a part of: the index of that message's first row."""
        current = 0
        for index, kind in enumerate(self._kinds):
            if not kind & _NAMED:
                yield None
                continue
            if not kind & _SAME_MESSAGE:
                current = self._regrouped.get(index, index)
            yield current


class Picked(Sequence[Row]):
    """Some of the rows, by ascending index."""

    def __init__(self, rows: Rows, indexes: Sequence[int]) -> None:
        self.rows = rows
        self.indexes = indexes

    def __len__(self) -> int:
        return len(self.indexes)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Picked: ...
    def __getitem__(self, place: int | slice) -> Row | Picked:
        if isinstance(place, slice):
            return Picked(self.rows, self.indexes[place])
        return self.rows[self.indexes[place]]

    def role(self, place: int) -> RowRole:
        """The role of one of them, without making it."""
        return self.rows.role(self.indexes[place])

    def has(self, index: int) -> bool:
        """Whether the row of that index is one of them."""
        place = bisect_left(self.indexes, index)
        return place < len(self.indexes) and self.indexes[place] == index

    def behind(self, offset: int) -> int:
        """How many of them begin before ``offset``."""
        return bisect_left(self.indexes, offset, key=self.rows.offset)


def message_id_of(data: dict[str, Any]) -> str:
    """The model's own id of the message that an ``assistant`` row is a part of; "" for other rows."""
    message = data.get("message")
    if data.get("type") != "assistant" or not isinstance(message, dict):
        return ""
    return str(message.get("id") or "")


def model_and_effort(data: dict[str, Any]) -> tuple[str, str]:
    """The model that wrote an ``assistant`` row and how hard it tried, "" where the row does not say."""
    message = data.get("message")
    model = message.get("model") if data.get("type") == "assistant" and isinstance(message, dict) else None
    effort = data.get("perTurnEffort")
    named = isinstance(model, str) and not model.startswith("<")
    return str(model) if named else "", effort if isinstance(effort, str) else ""


def parent_of(data: dict[str, Any]) -> str | None:
    """The row before this one. A compaction cuts ``parentUuid`` and keeps the real one beside it."""
    parent = data.get("parentUuid")
    if parent is None and data.get("subtype") == "compact_boundary":
        parent = data.get("logicalParentUuid")
    return parent if isinstance(parent, str) and parent else None


def _packed(uuid: str) -> bytes | None:
    """The bytes of a uuid in its usual form; None for any other text."""
    if len(uuid) != 36:
        return None
    try:
        packed = bytes.fromhex(uuid.replace("-", ""))
    except ValueError:
        return None
    return packed if len(packed) == _PACKED and _unpacked(packed) == uuid else None


def _unpacked(packed: bytes | bytearray) -> str:
    digits = packed.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

"""Reading a session's history. Nothing here writes.

Everything takes a :class:`Session` as it was read; when its history moved meanwhile, the answers are those of the
moment it was read (``history_revision`` tells). Seqs and turn ordinals count from 1 and have no gaps, so pages are
ranges. Ids of inherited turns and interactions are worked out here and are stored nowhere.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import or_
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigIntegerField, Func, Q
from django.db.models.sql.compiler import SQLCompiler

from sessions import identities, payloads
from sessions.choices import EventKind, InteractionState, TurnPhase
from sessions.models import Event, Interaction, Session, Turn
from sessions.providers.base import TurnBinding
from sessions.segments import Part, part_at, parts_of, seqs_between, turns_between
from sessions.store import bindings
from sessions.store.snapshots import Snapshot

_MESSAGES = frozenset({EventKind.MESSAGE_USER, EventKind.MESSAGE_ASSISTANT})


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn as one session shows it.

    ``last_seq``, ``outcome`` and ``settled_at_unix_ms`` are None while it is open. ``binding`` is what ties it to the
    provider *in this session*, None when nothing does; ``binding_reason`` then says why.
    """

    id: uuid.UUID
    origin_id: uuid.UUID
    ordinal: int
    phase: str
    outcome: str | None
    prompt: str
    model: str
    effort: str
    origin: str
    first_seq: int
    last_seq: int | None
    started_at_unix_ms: int
    settled_at_unix_ms: int | None
    binding_state: str
    binding_reason: str
    binding: TurnBinding | None
    inherited: bool
    usage: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventView:
    """An event as one session shows it. ``message_id`` is set for messages, ``turn_no`` within a turn."""

    seq: int
    log_id: int
    message_id: uuid.UUID | None
    turn_no: int | None
    turn_id: uuid.UUID | None
    kind: str
    at_unix_ms: int
    payload: dict[str, Any]
    inherited: bool


@dataclass(frozen=True, slots=True)
class InteractionView:
    """An interaction as one session shows it.

    One that was still waiting where the shown part of its log ends (at a fork, at a rewind) is superseded there.
    """

    id: uuid.UUID
    origin_id: uuid.UUID
    key: str
    kind: str
    state: str
    turn_no: int | None
    asked_seq: int
    closed_seq: int | None
    inherited: bool


class _Shown:
    """A session's parts and bindings, read once for several turns."""

    def __init__(self, session: Session, parts: Sequence[Part] | None = None) -> None:
        self.session = session
        self.parts = parts_of(session) if parts is None else parts
        self._mapped: Mapping[str, Sequence[Any]] | None = None

    @property
    def mapped(self) -> Mapping[str, Sequence[Any]]:
        """The binding map, read when an inherited turn is met."""
        if self._mapped is None:
            self._mapped = bindings.binding_map_of(self.session)
        return self._mapped

    def turn_id(self, origin_id: uuid.UUID, first_seq: int) -> uuid.UUID:
        """The id of a turn in this session."""
        operation_id = self.session.fork_operation_id
        if operation_id is None or first_seq > self.session.seed_length:
            return origin_id
        return identities.inherited_turn_id(operation_id, origin_id)

    def view(self, turn: Turn) -> TurnView:
        """The turn in this session."""
        inherited = turn.first_seq <= self.session.seed_length
        state, reason, binding = bindings.view(
            turn, inherited=inherited, kept=self.session.binding_kept, mapped=self.mapped if inherited else {}
        )
        return TurnView(
            id=self.turn_id(turn.pk, turn.first_seq),
            origin_id=turn.pk,
            ordinal=turn.ordinal,
            phase=turn.phase,
            outcome=turn.outcome,
            prompt=turn.prompt,
            model=turn.model,
            effort=turn.effort,
            origin=turn.origin,
            first_seq=turn.first_seq,
            last_seq=turn.last_seq,
            started_at_unix_ms=turn.started_at_unix_ms,
            settled_at_unix_ms=turn.settled_at_unix_ms,
            binding_state=state,
            binding_reason=reason,
            binding=binding,
            inherited=inherited,
            usage=turn.usage,
        )


# Turns ----------------------------------------------------------------------------------------------------------------


def turns(session: Session, *, first: int = 1, limit: int = 50) -> list[TurnView]:
    """At most ``limit`` turns from ordinal ``first`` on."""
    shown = _Shown(session)
    return [shown.view(turn) for turn in _turn_rows(shown.parts, first, first + limit - 1)]


def _turn_rows(parts: Sequence[Part], first: int, last: int) -> list[Turn]:
    condition = turns_between(parts, first, last)
    return list(Turn.objects.filter(condition).order_by("ordinal")) if condition is not None else []


def turn_by_ordinal(session: Session, ordinal: int) -> TurnView | None:
    """The turn with this ordinal."""
    return next(iter(turns(session, first=ordinal, limit=1)), None)


def turn_by_id(session: Session, turn_id: uuid.UUID) -> TurnView | None:
    """The turn that has this id in this session; an inherited turn's id in its source is none."""
    shown = _Shown(session)
    own = Turn.objects.filter(pk=turn_id).first()
    if own is not None:
        here = any(
            part.log_id == own.log_id and part.first_turn <= own.ordinal <= part.last_turn for part in shown.parts
        )
        return shown.view(own) if here and shown.turn_id(own.pk, own.first_seq) == turn_id else None
    if session.fork_operation_id is None:
        return None
    seed = tuple((part.log_id, part.last_turn) for part in shown.parts if part.last_seq <= session.seed_length)
    ordinal = _inherited_ordinals(session.fork_operation_id, seed).get(turn_id)
    return turn_by_ordinal(session, ordinal) if ordinal is not None else None


@functools.lru_cache(maxsize=64)
def _inherited_ordinals(operation_id: uuid.UUID, seed: tuple[tuple[int, int], ...]) -> dict[uuid.UUID, int]:
    """Ordinals by inherited id; the ids of a fork's seed never change, so the answer may be kept."""
    return {
        identities.inherited_turn_id(operation_id, origin_id): ordinal
        for log_id, last_turn in seed
        for origin_id, ordinal in Turn.objects.filter(log_id=log_id, ordinal__lte=last_turn).values_list(
            "pk", "ordinal"
        )
    }


def latest_turn(session: Session) -> TurnView | None:
    """The last turn, open or settled."""
    return turn_by_ordinal(session, session.turn_count)


def latest_settled_turn(session: Session) -> TurnView | None:
    """The last settled turn; only the very last turn can be open."""
    last = turns(session, first=max(1, session.turn_count - 1), limit=2)
    return next((turn for turn in reversed(last) if turn.phase == TurnPhase.SETTLED), None)


def turn_at(session: Session, seq: int) -> TurnView | None:
    """The turn that event ``seq`` belongs to; None for a standalone event or no event."""
    shown = _Shown(session)
    turn = _turn_begun_by(shown.parts, seq)
    if turn is None or not 1 <= seq <= session.last_seq:
        return None
    return shown.view(turn) if turn.last_seq is None or seq <= turn.last_seq else None


def turn_ending_at_or_after(session: Session, seq: int) -> TurnView | None:
    """The first settled turn that ends at ``seq`` or later: its own turn's end, the next turn's for a standalone event."""
    shown = _Shown(session)
    begun = _turn_begun_by(shown.parts, seq)
    ordinal = begun.ordinal if begun else 0
    if begun is None or (begun.last_seq is not None and begun.last_seq < seq):
        begun = next(iter(_turn_rows(shown.parts, ordinal + 1, ordinal + 1)), None)
    return shown.view(begun) if begun is not None and begun.phase == TurnPhase.SETTLED else None


def _turn_begun_by(parts: Sequence[Part], seq: int) -> Turn | None:
    """The last turn that begins at or before ``seq``."""
    for part in reversed(parts):
        if part.first_seq <= seq and part.first_turn <= part.last_turn:
            rows = Turn.objects.filter(log_id=part.log_id, first_seq__range=(part.first_seq, min(seq, part.last_seq)))
            turn = rows.order_by("-first_seq").first()
            if turn is not None:
                return turn
    return None


def bindings_through(session: Session, ordinal: int) -> list[TurnBinding]:
    """The bindings of turns 1 to ``ordinal`` in this session, in order; an unbound turn's has an empty id."""
    shown = _Shown(session)
    views = (shown.view(turn) for turn in _turn_rows(shown.parts, 1, ordinal))
    return [view.binding or TurnBinding("", reason=view.binding_reason) for view in views]


def frozen_bindings(snapshot: Snapshot) -> list[TurnBinding]:
    """The bindings of the snapshot's turns, in order, as its source showed them, whatever became of the source since."""
    result: list[TurnBinding] = []
    mapped = snapshot.binding_map or {}
    for segment in snapshot.segments:
        ordinals = (segment.first_turn, segment.last_turn)
        for turn in Turn.objects.filter(log_id=segment.log_id, ordinal__range=ordinals).order_by("ordinal"):
            inherited = turn.ordinal <= snapshot.seed_turns
            _, reason, binding = bindings.view(turn, inherited=inherited, kept=snapshot.bindings_kept, mapped=mapped)
            result.append(binding or TurnBinding("", reason=reason))
    return result


# Events ---------------------------------------------------------------------------------------------------------------


def events(
    session: Session, *, after: int = 0, limit: int = 200, through: int | None = None, most_bytes: int | None = None
) -> list[EventView]:
    """At most ``limit`` events with ``after < seq <= through`` (default: the last), in order.

    With ``most_bytes`` only as many as have payloads of that size together, but always the first one.
    """
    shown = _Shown(session)
    last = min(after + limit, session.last_seq if through is None else through)
    if most_bytes is not None:
        last = _last_that_fits(shown.parts, after + 1, last, most_bytes)
    condition = seqs_between(shown.parts, after + 1, last)
    if condition is None:
        return []
    rows = Event.objects.filter(condition).order_by("seq")
    found = list(rows.values_list("seq", "log_id", "turn_no", "kind", "at_unix_ms", "payload"))
    ids = _turn_ids(shown, {row[2] for row in found if row[2] is not None})
    return [
        EventView(
            seq=seq,
            log_id=log_id,
            message_id=identities.message_id(session.pk, log_id, seq) if kind in _MESSAGES else None,
            turn_no=turn_no,
            turn_id=ids.get(turn_no) if turn_no is not None else None,
            kind=kind,
            at_unix_ms=at_unix_ms,
            payload=payloads.parse(payload),
            inherited=seq <= session.seed_length,
        )
        for seq, log_id, turn_no, kind, at_unix_ms, payload in found
    ]


class _Bytes(Func):
    """The size of a payload, which is ASCII; PostgreSQL knows it without unpacking the text."""

    function = "OCTET_LENGTH"
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, function="LENGTH", **context)


def payload_sizes(session: Session, ranges: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The bytes of the payloads of the events in these ranges of seqs, by seq; nothing of them is read."""
    parts = parts_of(session)
    conditions = [seqs_between(parts, first, last) for first, last in ranges]
    condition = functools.reduce(or_, filter(None, conditions), Q(pk__in=[]))
    return dict(Event.objects.filter(condition).values_list("seq", _Bytes("payload")))


def _last_that_fits(parts: Sequence[Part], first: int, last: int, most_bytes: int) -> int:
    condition = seqs_between(parts, first, last)
    if condition is None or first == last:
        return last
    sizes = Event.objects.filter(condition).order_by("seq").values_list("seq", _Bytes("payload"))
    fits, used = first, 0
    for seq, size in sizes:
        used += size
        if used > most_bytes:
            break
        fits = seq
    return fits


def _turn_ids(shown: _Shown, ordinals: Iterable[int]) -> dict[int, uuid.UUID]:
    wanted = sorted(ordinals)
    condition = turns_between(shown.parts, wanted[0], wanted[-1]) if wanted else None
    if condition is None:
        return {}
    rows = Turn.objects.filter(condition).values_list("ordinal", "pk", "first_seq")
    return {ordinal: shown.turn_id(origin_id, first_seq) for ordinal, origin_id, first_seq in rows}


def event_digests(session: Session, first: int, last: int) -> list[bytes]:
    """The running digests of events ``first`` to ``last``."""
    condition = seqs_between(parts_of(session), first, last)
    if condition is None:
        return []
    return [
        bytes(digest) for digest in Event.objects.filter(condition).order_by("seq").values_list("digest", flat=True)
    ]


def digest_at(session: Session, seq: int) -> bytes:
    """The running digest at event ``seq``, empty at 0. Raises ``Event.DoesNotExist`` beyond the end."""
    if seq == 0:
        return b""
    part = part_at(parts_of(session), seq)
    if part is None:
        raise Event.DoesNotExist(f"The session has no event {seq}.")
    return bytes(Event.objects.values_list("digest", flat=True).get(log_id=part.log_id, seq=seq))


# Interactions ---------------------------------------------------------------------------------------------------------


def interactions(session: Session) -> list[InteractionView]:
    """The session's interactions in the order in which they were asked."""
    views: list[InteractionView] = []
    for part in parts_of(session):
        rows = Interaction.objects.filter(log_id=part.log_id, asked_seq__lte=part.last_seq).order_by("asked_seq")
        views.extend(_interaction_view(session, part, row) for row in rows)
    return views


def _interaction_view(session: Session, part: Part, row: Interaction) -> InteractionView:
    inherited = row.asked_seq <= session.seed_length
    cut_off = not part.tail and (row.closed_seq is None or row.closed_seq > part.last_seq)
    identity = row.pk
    if inherited and session.fork_operation_id is not None:
        identity = identities.inherited_interaction_id(session.fork_operation_id, row.pk)
    return InteractionView(
        id=identity,
        origin_id=row.pk,
        key=row.key,
        kind=row.kind,
        state=InteractionState.SUPERSEDED if cut_off else row.state,
        turn_no=row.turn_no,
        asked_seq=row.asked_seq,
        closed_seq=None if cut_off else row.closed_seq,
        inherited=inherited,
    )

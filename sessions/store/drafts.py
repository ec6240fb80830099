"""What an append will write, worked out before anything is written."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from sessions import identities, payloads
from sessions.choices import EventKind, InteractionKind, InteractionState, TurnOutcome, TurnPhase
from sessions.digests import event_digest
from sessions.errors import (
    AttachmentMissing,
    BindingConflict,
    InteractionConflict,
    PayloadRefused,
    StoreError,
    TurnConflict,
    UnknownReference,
)
from sessions.models import Attachment, Blob, Event, Interaction, Session, Turn
from sessions.providers.base import TurnBinding
from sessions.store import bindings, references
from sessions.store.entries import PROMPT_LENGTH, Entry, NewEvent, TurnEnd, TurnStart, stored_form
from sessions.store.rows import EventRow

_BRACKETS = frozenset({EventKind.TURN_START, EventKind.TURN_END})
_CLOSING = {
    EventKind.INTERACTION_ANSWERED: InteractionState.ANSWERED,
    EventKind.INTERACTION_SUPERSEDED: InteractionState.SUPERSEDED,
}


class Tail(NamedTuple):
    """Where a history ends: its open turn, and the running digest at its last event."""

    open_turn: Turn | None
    digest: bytes


class Draft:
    """The rows of one append. ``add`` takes the entries in order; nothing is written here."""

    BINDING_FIELDS: ClassVar[tuple[str, ...]] = ("provider_turn_id", "binding", "binding_state", "binding_reason")

    def __init__(self, session: Session, tail: Tail | None = None) -> None:
        """``tail`` is what the append just before this one left behind, so that it need not be read again."""
        self.session = session
        self.lenient = session.home_id is not None
        self.last_seq = session.last_seq
        self.turn_count = session.turn_count
        self.latest_at_unix_ms = 0
        self.model = ""
        self.effort = ""
        self.first_prompt = ""
        self.rows: list[EventRow] = []
        self.new_turns: list[Turn] = []
        self.settled_before: Turn | None = None
        self.asked: dict[str, Interaction] = {}
        self.closed: list[Interaction] = []
        self.attachments: list[Attachment] = []
        self._known: dict[str, Interaction | None] = {}
        self._images: list[Attachment] = []
        self._newly_bound: list[Turn] = []
        self.open_turn: Turn | None = tail.open_turn if tail is not None else self._find_open_turn()
        self._carried = self.open_turn
        self._digest: bytes = tail.digest if tail is not None else self._previous_digest()

    def _find_open_turn(self) -> Turn | None:
        turn = Turn.objects.filter(log_id=self.session.log_id, ordinal=self.session.turn_count).first()
        return turn if turn is not None and turn.phase == TurnPhase.OPEN else None

    def _previous_digest(self) -> bytes:
        log = self.session.log
        if self.session.last_seq < log.first_seq:
            return bytes(log.seed_digest)
        return bytes(Event.objects.values_list("digest", flat=True).get(log_id=log.pk, seq=self.session.last_seq))

    @property
    def tail(self) -> Tail:
        """What the next append goes on from."""
        return Tail(self.open_turn, self._digest)

    def add(self, entry: Entry) -> None:
        """Take the next entry."""
        if isinstance(entry, TurnStart):
            self._start(entry)
        elif isinstance(entry, TurnEnd):
            self._end(entry)
        else:
            self._event(entry)

    def check(self) -> None:
        """Whether provider turn ids and files belong where the entries put them; needs the whole draft."""
        self._check_bindings()
        self._check_images()

    def waits(self) -> bool:
        """Whether a person is waited for."""
        closed = {interaction.pk for interaction in self.closed}
        if any(interaction.state == InteractionState.PENDING for interaction in self.asked.values()):
            return True
        pending = Interaction.objects.filter(log_id=self.session.log_id, closed_seq__isnull=True)
        return bool(pending.exclude(pk__in=closed).exists())

    # Turns ----------------------------------------------------------------------------------------------------------

    def _start(self, entry: TurnStart) -> None:
        if self.open_turn is not None:
            self._settle(self.open_turn, TurnEnd(entry.at_unix_ms, TurnOutcome.INTERRUPTED))
        self.turn_count += 1
        self._bracket(entry, self.turn_count)
        turn = Turn(
            id=identities.turn_origin_id(self.session.log_id, self.turn_count, self.session.pk),
            log_id=self.session.log_id,
            ordinal=self.turn_count,
            first_seq=self.last_seq,
            prompt=payloads.clip(entry.prompt, PROMPT_LENGTH),
            model=payloads.clip(entry.model, 200),
            effort=payloads.clip(entry.effort, 64),
            origin=payloads.clip(entry.origin, 32),
            started_at_unix_ms=entry.at_unix_ms,
        )
        self._bind(turn, entry.binding)
        self.new_turns.append(turn)
        self.open_turn = turn
        self.model = turn.model or self.model
        self.effort = turn.effort or self.effort
        self.first_prompt = self.first_prompt or turn.prompt

    def _end(self, entry: TurnEnd) -> None:
        if self.open_turn is None:
            raise TurnConflict("No turn is open that could be settled.")
        if entry.binding is not None and entry.binding.provider_turn_id:
            self._bind(self.open_turn, entry.binding)
        self._settle(self.open_turn, entry)

    def _settle(self, turn: Turn, entry: TurnEnd) -> None:
        self._bracket(entry, turn.ordinal)
        turn.phase = TurnPhase.SETTLED
        turn.outcome = TurnOutcome(entry.outcome)
        turn.last_seq = self.last_seq
        turn.digest = self._digest
        turn.settled_at_unix_ms = entry.at_unix_ms
        turn.usage = self._usage(entry.usage)
        if turn is self._carried:
            self.settled_before = turn
        self.open_turn = None

    def _bind(self, turn: Turn, binding: TurnBinding | None) -> None:
        for name, value in bindings.columns(binding).items():
            setattr(turn, name, value)
        # One turn is open at a time, so a turn bound again is the last one; comparing models costs more than writing them.
        if turn.provider_turn_id and not (self._newly_bound and self._newly_bound[-1] is turn):
            self._newly_bound.append(turn)

    def _check_bindings(self) -> None:
        taken = bindings.owners(self.session, {turn.provider_turn_id for turn in self._newly_bound})
        for turn in self._newly_bound:
            owner = taken.setdefault(turn.provider_turn_id, turn.ordinal)
            if owner == turn.ordinal:
                continue
            if not self.lenient:
                raise BindingConflict(f"The provider's turn {turn.provider_turn_id} is bound to turn {owner}.")
            for name, value in bindings.conflicting().items():
                setattr(turn, name, value)

    # Events ---------------------------------------------------------------------------------------------------------

    def _event(self, entry: NewEvent) -> None:
        kind = EventKind(entry.kind)
        if kind in _BRACKETS:
            raise TurnConflict("A turn begins and ends with entries of their own, not with plain events.")
        try:
            text = payloads.canonical(entry.payload)
            self._refer(kind, entry.payload)
        except (PayloadRefused, UnknownReference, InteractionConflict) as refusal:
            if not self.lenient:
                raise
            kind, text = EventKind.NOTE, _note(kind, entry.payload, refusal)
        self._row(kind, entry.at_unix_ms, text, self.open_turn.ordinal if self.open_turn else None)
        if isinstance(entry.payload, dict):
            self._collect_images(entry.payload)

    def _refer(self, kind: EventKind, payload: dict[str, Any]) -> None:
        """Check the typed references of an event that will have the next seq, and note what it asks or closes."""
        if not self.lenient:
            references.check(payload, last_seq=self.last_seq, turn_count=self.turn_count)
        if kind == EventKind.INTERACTION_ASKED:
            self._ask(references.interaction_key(payload), payload)
        elif kind in _CLOSING:
            self._close(references.interaction_key(payload), _CLOSING[kind])

    def _ask(self, key: str, payload: dict[str, Any]) -> None:
        if self._interaction(key) is not None:
            raise UnknownReference(f"The interaction {key} was asked before.")
        kind = payload.get("kind", InteractionKind.QUESTION)
        if kind not in InteractionKind.values:
            raise UnknownReference(f"{kind!r} is no kind of interaction.")
        self.asked[key] = Interaction(
            id=identities.interaction_origin_id(self.session.log_id, key, self.session.pk),
            log_id=self.session.log_id,
            key=key,
            turn_no=self.open_turn.ordinal if self.open_turn else None,
            asked_seq=self.last_seq + 1,
            kind=kind,
        )

    def _close(self, key: str, state: InteractionState) -> None:
        interaction = self._interaction(key)
        if interaction is None:
            raise UnknownReference(f"No interaction {key} was asked in this part of the history.")
        if interaction.state != InteractionState.PENDING:
            raise InteractionConflict(f"The interaction {key} is {interaction.state} already.")
        interaction.state = state
        interaction.closed_seq = self.last_seq + 1
        if key not in self.asked:
            self.closed.append(interaction)

    def _interaction(self, key: str) -> Interaction | None:
        if key in self.asked:
            return self.asked[key]
        if key not in self._known:
            self._known[key] = Interaction.objects.filter(log_id=self.session.log_id, key=key).first()
        return self._known[key]

    def _collect_images(self, payload: dict[str, Any]) -> None:
        for position, (digest, name) in enumerate(references.stored_files(payload)):
            self._images.append(
                Attachment(log_id=self.session.log_id, seq=self.last_seq, position=position, blob_id=digest, name=name)
            )

    def _check_images(self) -> None:
        stored = set(Blob.objects.filter(pk__in={image.blob_id for image in self._images}).values_list("pk", flat=True))
        for image in self._images:
            if image.blob_id in stored:
                self.attachments.append(image)
            elif not self.lenient:
                raise AttachmentMissing(f"No stored file has the digest {image.blob_id}.")

    def _usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        try:
            return payloads.plain_json(usage)
        except PayloadRefused:
            if not self.lenient:
                raise
            return {}

    # Rows -----------------------------------------------------------------------------------------------------------

    def _bracket(self, entry: TurnStart | TurnEnd, turn_no: int) -> None:
        kind, at_unix_ms, payload = stored_form(entry)
        try:
            text = payloads.canonical(payload)
        except PayloadRefused:
            if not self.lenient:
                raise
            text = payloads.canonical({"refused": PayloadRefused.code})
        self._row(EventKind(kind), at_unix_ms, text, turn_no)

    def _row(self, kind: EventKind, at_unix_ms: int, payload: str, turn_no: int | None) -> None:
        self.last_seq += 1
        self._digest = event_digest(self._digest, self.last_seq, kind.value, at_unix_ms, payload)
        self.latest_at_unix_ms = max(self.latest_at_unix_ms, at_unix_ms)
        self.rows.append(
            EventRow(self.session.log_id, self.last_seq, turn_no, kind.value, at_unix_ms, payload, self._digest)
        )


def _note(kind: EventKind, payload: dict[str, Any], refusal: StoreError) -> str:
    told = {"text": f"Not taken over as {kind.value}: {refusal.message}", "reason": refusal.code, "kind": kind.value}
    try:
        return payloads.canonical({**told, "payload": payload})
    except PayloadRefused:
        return payloads.canonical(told)

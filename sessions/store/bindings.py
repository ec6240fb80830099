"""What ties turns to the provider's, and whose id is whose."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction

from sessions import payloads
from sessions.choices import BindingState
from sessions.errors import BindingConflict, PayloadRefused, TurnConflict
from sessions.models import Session, Turn
from sessions.providers.base import TurnBinding
from sessions.segments import Part, parts_of
from sessions.store import guards

UNSTORABLE = "binding_unstorable"
CONFLICT = "binding_conflict"
# A B-tree key of PostgreSQL holds 2,704 bytes.
LONGEST_ID = 600


def columns(binding: TurnBinding | None) -> dict[str, Any]:
    """The columns of a turn for ``binding``; an id that a column cannot hold as it is leaves the turn unbound."""
    if binding is None or not binding.provider_turn_id:
        return _unbound(binding.reason if binding else "")
    provider_id = binding.provider_turn_id
    if len(provider_id) > LONGEST_ID or not payloads.storable(provider_id):
        return _unbound(UNSTORABLE)
    try:
        if payloads.plain_json(binding.data) is not binding.data:
            return _unbound(UNSTORABLE)
    except PayloadRefused:
        return _unbound(UNSTORABLE)
    return {
        "provider_turn_id": provider_id,
        "binding": binding.data,
        "binding_state": BindingState.BOUND,
        "binding_reason": payloads.clip(binding.reason, 64),
    }


def conflicting() -> dict[str, Any]:
    """The columns of a turn whose id belongs to another turn: it has to be found again by a person."""
    return {
        "provider_turn_id": "",
        "binding": {},
        "binding_state": BindingState.RECOVERY_REQUIRED,
        "binding_reason": CONFLICT,
    }


def _unbound(reason: str) -> dict[str, Any]:
    return {
        "provider_turn_id": "",
        "binding": {},
        "binding_state": BindingState.NONE,
        "binding_reason": payloads.clip(reason, 64),
    }


def owners(session: Session, provider_turn_ids: Collection[str]) -> dict[str, int]:
    """The ordinals of the turns of ``session`` that these provider turn ids belong to."""
    if not provider_turn_ids:
        return {}
    found = _rows_with(session.log_id, provider_turn_ids)
    if session.log.first_seq > 1:
        mapped = binding_map_of(session)
        for part in parts_of(session):
            if not part.tail and (session.binding_kept or part.first_seq > session.seed_length):
                for provider_id, ordinal in _rows_with(part.log_id, provider_turn_ids).items():
                    if ordinal <= part.last_turn and str(ordinal) not in mapped:
                        found.setdefault(provider_id, ordinal)
        for text, (provider_id, _data) in mapped.items():
            if provider_id in provider_turn_ids:
                found[provider_id] = int(text)
    return found


def _rows_with(log_id: int, provider_turn_ids: Collection[str]) -> dict[str, int]:
    # The literal condition is the one of the partial unique index; a bound value would not let SQLite use it.
    rows = Turn.objects.filter(log_id=log_id, provider_turn_id__in=list(provider_turn_ids)).extra(
        where=['NOT ("agent_sessions_turn"."provider_turn_id" = \'\')']
    )
    return dict(rows.values_list("provider_turn_id", "ordinal"))


def binding_map_of(session: Session) -> dict[str, Sequence[Any]]:
    """The session's map of inherited turns, read when it is needed: it may be long."""
    stored = Session.objects.values_list("binding_map", flat=True).get(pk=session.pk)
    mapped: dict[str, Sequence[Any]] = stored or {}
    return mapped


def normalised_map(binding_map: Mapping[Any, Any] | None, turn_count: int) -> dict[str, list[Any]] | None:
    """``binding_map`` (ordinal to TurnBinding or ``[provider_turn_id, data]``) as it is stored.

    Raises :class:`BindingConflict` when an id serves two turns or a turn is not inherited.
    """
    if binding_map is None:
        return None
    result: dict[str, list[Any]] = {}
    seen: set[str] = set()
    for key, value in binding_map.items():
        provider_id, data = (
            (value.provider_turn_id, value.data) if isinstance(value, TurnBinding) else (value[0], value[1])
        )
        if not 1 <= int(key) <= turn_count or str(int(key)) in result:
            raise BindingConflict(f"Turn {key} is not among the inherited turns, or is mapped twice.")
        stored = columns(TurnBinding(provider_id, data))
        if stored["provider_turn_id"] in seen:
            raise BindingConflict(f"The provider's turn {provider_id} is mapped to two turns.")
        if stored["provider_turn_id"]:
            seen.add(provider_id)
        result[str(int(key))] = [stored["provider_turn_id"], stored["binding"]]
    return result


@transaction.atomic
def bind_turn(session_id: uuid.UUID, binding: TurnBinding) -> None:
    """Move the latest turn's binding forward; legal only until the next turn starts.

    Raises the refusals of a history write, :class:`TurnConflict` when the session has no turn of its own at its end,
    :class:`BindingConflict` when the id belongs to another turn, or when a binding would be taken away.
    """
    session = guards.writable(session_id)
    turn = Turn.objects.filter(log_id=session.log_id, ordinal=session.turn_count).first()
    if turn is None:
        raise TurnConflict("The latest turn was inherited or does not exist, so its binding cannot move.")
    _write(session, turn, binding)


@transaction.atomic
def fill_binding(session_id: uuid.UUID, ordinal: int, binding: TurnBinding) -> None:
    """Fill an empty binding by exact id, never by position or text; an inherited turn's goes into the map.

    Raises the refusals of a history write, :class:`TurnConflict` when there is no such turn,
    :class:`BindingConflict` when it is bound already or the id belongs to another turn.
    """
    session = guards.writable(session_id)
    part = next((part for part in parts_of(session) if part.first_turn <= ordinal <= part.last_turn), None)
    if part is None:
        raise TurnConflict(f"The session has no turn {ordinal}.")
    turn = Turn.objects.get(log_id=part.log_id, ordinal=ordinal)
    if turn.first_seq <= session.seed_length:
        _fill_inherited(session, turn, binding)
        return
    if turn.provider_turn_id:
        raise BindingConflict(f"Turn {ordinal} is bound already.")
    _write(session, turn, binding)


def _write(session: Session, turn: Turn, binding: TurnBinding) -> None:
    stored = columns(binding)
    if not stored["provider_turn_id"]:
        if turn.provider_turn_id:
            raise BindingConflict("A binding moves forward only; it cannot be taken away.")
    elif owners(session, {stored["provider_turn_id"]}).get(stored["provider_turn_id"], turn.ordinal) != turn.ordinal:
        raise BindingConflict(f"The provider's turn {binding.provider_turn_id} is bound to another turn.")
    guards.advance(session)
    if Turn.objects.filter(pk=turn.pk, provider_turn_id=turn.provider_turn_id).update(**stored) != 1:
        raise BindingConflict("The turn's binding changed meanwhile.")


def _fill_inherited(session: Session, turn: Turn, binding: TurnBinding) -> None:
    mapped = binding_map_of(session)
    bound = mapped.get(str(turn.ordinal), ["", {}])[0] or (session.binding_kept and turn.provider_turn_id)
    stored = columns(binding)
    if bound or not stored["provider_turn_id"]:
        raise BindingConflict(f"Turn {turn.ordinal} is bound already, or the new binding is empty.")
    if owners(session, {stored["provider_turn_id"]}):
        raise BindingConflict(f"The provider's turn {binding.provider_turn_id} is bound to another turn.")
    guards.advance(
        session,
        binding_map={**mapped, str(turn.ordinal): [stored["provider_turn_id"], stored["binding"]]},
    )


def view(
    turn: Turn, *, inherited: bool, kept: bool, mapped: Mapping[str, Sequence[Any]]
) -> tuple[str, str, TurnBinding | None]:
    """State, reason and binding of a turn as one session shows it; never the source's unless the provider keeps ids."""
    if inherited:
        entry = mapped.get(str(turn.ordinal))
        if entry is not None and entry[0]:
            return BindingState.BOUND, "", TurnBinding(entry[0], entry[1])
        if entry is not None or not kept:
            return BindingState.NONE, "inherited_unmapped", None
    if turn.provider_turn_id:
        return turn.binding_state, turn.binding_reason, TurnBinding(turn.provider_turn_id, turn.binding)
    return turn.binding_state, turn.binding_reason, None


def seed_turns(session: Session, parts: Sequence[Part]) -> int:
    """How many turns ``session`` inherited."""
    return max((part.last_turn for part in parts if part.last_seq <= session.seed_length), default=0)

"""What passes between the saga and an adapter: the request built from an operation's own record, and its answer."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from forkhost.kit import processes
from operations import hosted
from operations.choices import OperationStatus
from operations.models import Operation
from operations.points import ResolvedPoint
from sessions import capabilities, history, payloads, runners
from sessions.models import Home, Session
from sessions.providers import registry
from sessions.providers.base import (
    Adapter,
    Attestation,
    ForkAccepted,
    ForkRequest,
    ForkSettings,
    ForkTurn,
    HomeRef,
    Json,
    ProcessIdentity,
    SessionRef,
    TurnBinding,
    TurnMapping,
)
from sessions.store import Snapshot

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

MARKER_PREFIX = "forkhost:"


def actor(user: User | AnonymousUser) -> str:
    """A person as the audit names them."""
    return f"user:{user.get_username()}"


def marker(operation_id: uuid.UUID) -> str:
    """What lies in a child so that it is recognised as this operation's."""
    return f"{MARKER_PREFIX}{operation_id}"


def adapter_of(operation: Operation) -> Adapter:
    """The adapter that serves the operation. Raises :class:`sessions.providers.registry.UnknownProvider`."""
    if operation.home_id is None:
        return hosted.HostedAdapter()
    return registry.adapter(operation.provider)


# --------------------------------------------------------------------------------------------------------------------
# What prepare freezes


def runtime_columns(source: Session, resolved: ResolvedPoint, destination: Home | None) -> dict[str, Any]:
    """Everything about runner, homes, driver and settings that an operation freezes of its source."""
    home = source.home
    attestation = hosted.ATTESTATION if home is None else runners.stored_attestation(home)
    if attestation is None:
        raise ValueError(f"home of session {source.pk} is not attested")
    columns: dict[str, Any] = {
        "provider": source.provider,
        "queue": hosted.QUEUE,
        "source_provider_session_id": source.provider_session_id or "",
        "driver_kind": attestation.driver_kind,
        "driver_version": attestation.driver_version,
        "fingerprint": attestation.fingerprint,
        "binding_mode": attestation.binding_mode.value,
        "identity_mode": attestation.identity_mode.value,
        "frozen": payloads.plain_json(_frozen(source, resolved, destination)),
    }
    if home is not None:
        columns |= {
            "home_id": home.pk,
            "target_home_id": destination.pk if destination is not None else None,
            "runner_id": home.runner_id,
            "queue": str(home.runner_id),
            "runner_incarnation": home.runner.incarnation,
        }
    return columns


def _frozen(source: Session, resolved: ResolvedPoint, destination: Home | None) -> Json:
    known: Mapping[str, Any] = source.settings
    sandbox = known.get("sandbox")
    settings = ForkSettings(
        model=(resolved.turn.model if resolved.turn else "") or source.model,
        effort=(resolved.turn.effort if resolved.turn else "") or source.effort,
        permission_mode=str(known.get("permission_mode") or known.get("permissionMode") or ""),
        approval_policy=str(known.get("approval_policy") or known.get("approvalPolicy") or ""),
        sandbox=sandbox if isinstance(sandbox, dict) else {},
    )
    path = "" if capabilities.is_hosted(source) else str(runners.session_ref(source).path or "")
    return {
        "home": source.home.path if source.home is not None else "",
        "targetHome": destination.path if destination is not None else "",
        "sourceBoundBy": _bound_by(source),
        "path": path,
        "cwd": source.cwd,
        "settings": {name: value for name, value in dataclasses.asdict(settings).items() if value},
        "reason": resolved.turn.binding.reason if resolved.turn and resolved.turn.binding else "",
    }


def _bound_by(source: Session) -> str:
    """The committed fork that bound the source into its home, "" when it lives where it was made."""
    if not source.seed_length or source.home_id is None:
        return ""
    rows = Operation.objects.filter(
        target_home_id=source.home_id, target_session_id=source.pk, status=OperationStatus.COMMITTED
    )
    operation_id = rows.values_list("pk", flat=True).first()
    return str(operation_id) if operation_id is not None else ""


# --------------------------------------------------------------------------------------------------------------------
# What an adapter is asked with


class Prefix(Sequence[TurnBinding]):
    """The frozen bindings through the chosen turn, read only when somebody asks for more than the last one.

    They are those of the operation's snapshot: the source may have been rewound or purged since. A fork
    costs the same at the end of a long history as of a short one, unless its contract or its provider needs the whole
    prefix.
    """

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._length = operation.resolved_ordinal or 0
        self._last = _chosen(operation)
        self._read: list[TurnBinding] | None = None

    def _all(self) -> list[TurnBinding]:
        if self._read is None:
            frozen = history.frozen_bindings(Snapshot.from_json(self._operation.snapshot))
            self._read = [*frozen[: max(0, self._length - 1)], self._last]
        return self._read

    @overload
    def __getitem__(self, index: int) -> TurnBinding: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[TurnBinding]: ...

    def __getitem__(self, index: int | slice) -> TurnBinding | Sequence[TurnBinding]:
        if index == -1:
            return self._last
        return self._all()[index]

    def __len__(self) -> int:
        return self._length if self._read is None else len(self._read)

    def __iter__(self) -> Iterator[TurnBinding]:
        return iter(self._all())


def _chosen(operation: Operation) -> TurnBinding:
    return TurnBinding(operation.source_provider_turn_id, operation.binding, operation.frozen["reason"])


def home_of(operation: Operation) -> HomeRef:
    """The home the operation was prepared for."""
    return HomeRef(operation.provider, Path(operation.frozen["home"] or hosted.NOWHERE))


def fork_request(operation: Operation, attestation: Attestation, *, require_prefix: bool) -> ForkRequest:
    """The one request of an operation, from its own record: the same at dispatch, look-up and binding."""
    frozen = operation.frozen
    return ForkRequest(
        operation_id=str(operation.pk),
        marker=marker(operation.pk),
        source=SessionRef(
            home=home_of(operation),
            provider_session_id=operation.source_provider_session_id,
            path=Path(frozen["path"]) if frozen["path"] else None,
            cwd=frozen["cwd"],
        ),
        turn=ForkTurn(_chosen(operation), operation.resolved_ordinal or 0),
        prefix=Prefix(operation),
        title=operation.title,
        settings=ForkSettings(**frozen["settings"]),
        attestation=attestation,
        require_prefix=require_prefix,
    )


# --------------------------------------------------------------------------------------------------------------------
# What an adapter answers


def accepted_to_json(accepted: ForkAccepted) -> Json:
    """An acceptance as evidence keeps it."""
    return payloads.plain_json(
        {
            "child": accepted.child_provider_session_id,
            "mapping": [_mapping_to_json(entry) for entry in accepted.mapping],
            "kept": accepted.kept,
            "receipt": accepted.receipt,
            "path": str(accepted.child_path or ""),
            "warnings": list(accepted.warnings),
        }
    )


def accepted_from_json(stored: Json) -> ForkAccepted:
    """The inverse of :func:`accepted_to_json`."""
    return ForkAccepted(
        child_provider_session_id=stored["child"],
        mapping=[
            TurnMapping(entry["source"], TurnBinding(entry["target"], entry["data"], entry["reason"]))
            for entry in stored["mapping"]
        ],
        kept=stored["kept"],
        receipt=stored["receipt"],
        child_path=Path(stored["path"]) if stored["path"] else None,
        warnings=tuple(stored["warnings"]),
    )


def accepted_columns(accepted: ForkAccepted) -> dict[str, Any]:
    """An acceptance as the operation's columns."""
    stored = accepted_to_json(accepted)
    return {
        "child_provider_session_id": stored["child"],
        "target_mapping": stored["mapping"],
        "bindings_kept": stored["kept"],
        "receipt": {"path": stored["path"], **stored["receipt"]},
        "warnings": stored["warnings"],
    }


def accepted_of(operation: Operation) -> ForkAccepted:
    """The acceptance an accepted operation recorded."""
    receipt = operation.receipt or {}
    return accepted_from_json(
        {
            "child": operation.child_provider_session_id,
            "mapping": operation.target_mapping or [],
            "kept": operation.bindings_kept,
            "receipt": receipt,
            "path": receipt.get("path") or "",
            "warnings": operation.warnings,
        }
    )


def binding_map(operation: Operation) -> dict[int, TurnBinding] | None:
    """Inherited turns by ordinal with the child's own bindings; None where the provider keeps the source's."""
    if operation.bindings_kept:
        return None
    mapping = {entry.source_provider_turn_id: entry.target for entry in accepted_of(operation).mapping}
    ordinal = operation.resolved_ordinal or 0
    if set(mapping) == {operation.source_provider_turn_id}:
        return {ordinal: mapping[operation.source_provider_turn_id]}
    return {
        position: mapping[binding.provider_turn_id]
        for position, binding in enumerate(Prefix(operation), start=1)
        if binding.provider_turn_id in mapping
    }


def child_is_taken(operation: Operation, child_id: str) -> bool:
    """Whether the id is the source's own, or that of a session in one of the operation's homes.

    That another operation has it is for ``operation_child_once`` to say.
    """
    if operation.home_id is None:
        return False
    if not child_id or child_id == operation.source_provider_session_id:
        return True
    homes = [home_id for home_id in (operation.home_id, operation.target_home_id) if home_id is not None]
    return Session.objects.filter(home_id__in=homes, provider_session_id=child_id).exists()


def process_to_json(process: ProcessIdentity) -> Json:
    """A process identity as the operation keeps it, with the namespace of this worker, in which its pid was given."""
    return {**dataclasses.asdict(process), "namespace": processes.pid_namespace()}


def process_from_json(stored: Json) -> ProcessIdentity:
    """The inverse."""
    return ProcessIdentity(pid=int(stored["pid"]), started_at=stored["started_at"], boot_id=stored["boot_id"])


def _mapping_to_json(entry: TurnMapping) -> Json:
    target = entry.target
    return {
        "source": entry.source_provider_turn_id,
        "target": target.provider_turn_id,
        "data": target.data,
        "reason": target.reason,
    }

"""What callers send about sessions: JSON bodies, every member known, every error named by its pointer."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from forkhost.kit.api import StrictBooleanField, StrictIntegerField, StrictSerializer
from sessions.api.fields import HostileTextField, IdField, ObjectField, UnixMsField
from sessions.choices import ClaimKind, EventKind, InteractionKind, TurnOutcome, Visibility

TITLE_LIMIT = 500
PATH_LIMIT = 4096
NAME_LIMIT = 200
KEY_LIMIT = 600
PROMPT_LIMIT = 1_000_000
MOST_ENTRIES = 1000

RECORD_KINDS = [kind for kind in EventKind if kind not in (EventKind.TURN_START, EventKind.TURN_END)]

TURN_START_CHOICES = [(EventKind.TURN_START.value, EventKind.TURN_START.label)]
TURN_END_CHOICES = [(EventKind.TURN_END.value, EventKind.TURN_END.label)]
RECORD_KIND_CHOICES = [(kind.value, kind.label) for kind in RECORD_KINDS]


class CreateSessionBody(StrictSerializer):
    """A hosted session: one whose history is written through this API. ``id`` is the caller's own, or made here."""

    id = IdField(required=False)
    title = HostileTextField(required=False, default="", max_length=TITLE_LIMIT)
    cwd = HostileTextField(required=False, default="", max_length=PATH_LIMIT)
    model = HostileTextField(required=False, default="", max_length=NAME_LIMIT)
    settings = ObjectField(required=False, default=dict)
    visibility = serializers.ChoiceField(Visibility.choices, required=False, default=Visibility.WORKSPACE)


class PatchSessionBody(StrictSerializer):
    """What may change about any session. Members left out stay as they are."""

    title = HostileTextField(required=False, max_length=TITLE_LIMIT)
    pin = StrictBooleanField(required=False)
    visibility = serializers.ChoiceField(Visibility.choices, required=False)
    detached = StrictBooleanField(required=False)


class TurnStartEntry(StrictSerializer):
    """A turn begins; one still open is settled as interrupted."""

    kind = serializers.ChoiceField(TURN_START_CHOICES)
    atUnixMs = UnixMsField(required=False)
    prompt = HostileTextField(required=False, default="", max_length=PROMPT_LIMIT)
    model = HostileTextField(required=False, default="", max_length=NAME_LIMIT)
    effort = HostileTextField(required=False, default="", max_length=64)
    payload = ObjectField(required=False, default=dict)


class TurnEndEntry(StrictSerializer):
    """The open turn is settled, for good."""

    kind = serializers.ChoiceField(TURN_END_CHOICES)
    atUnixMs = UnixMsField(required=False)
    outcome = serializers.ChoiceField(TurnOutcome.choices)
    usage = ObjectField(required=False, default=dict)
    payload = ObjectField(required=False, default=dict)


class RecordEntry(StrictSerializer):
    """One record inside the open turn, or standalone when none is open."""

    kind = serializers.ChoiceField(RECORD_KIND_CHOICES)
    atUnixMs = UnixMsField(required=False)
    payload = ObjectField(required=False, default=dict)


ENTRY_BODIES: dict[str, type[StrictSerializer]] = {
    EventKind.TURN_START.value: TurnStartEntry,
    EventKind.TURN_END.value: TurnEndEntry,
    **{kind.value: RecordEntry for kind in RECORD_KINDS},
}


@extend_schema_field(
    PolymorphicProxySerializer(
        "AppendEntry", [TurnStartEntry, TurnEndEntry, RecordEntry], resource_type_field_name=None
    )
)
class EntryField(serializers.Field[Any, Any, Any, Any]):
    """One of the three entries, told apart by ``kind``."""

    default_error_messages = {"not_an_object": "This has to be an object.", "kind": "There is no such kind of event."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("not_an_object")
        kind = data.get("kind")
        body = ENTRY_BODIES.get(kind) if isinstance(kind, str) else None
        if body is None:
            raise serializers.ValidationError(
                {"kind": [serializers.ErrorDetail(str(self.error_messages["kind"]), "invalid_choice")]}
            )
        checked = body(data=data)
        checked.is_valid(raise_exception=True)
        validated: dict[str, Any] = checked.validated_data
        return validated


class AppendBody(StrictSerializer):
    """Events to append, in order. With ``expectedLastSeq`` the same request can be sent again without harm: it is
    answered with what the first one wrote.
    """

    expectedLastSeq = StrictIntegerField(required=False)
    events = serializers.ListField(child=EntryField(), min_length=1, max_length=MOST_ENTRIES)


class AskBody(StrictSerializer):
    """Something waits for a person. ``payload`` is what is asked, ``key`` the agent's own id of it (default: a new one)."""

    kind = serializers.ChoiceField(InteractionKind.choices)
    key = HostileTextField(required=False, default="", max_length=KEY_LIMIT)
    payload = ObjectField(required=False, default=dict)


class AnswerBody(StrictSerializer):
    """What the person said."""

    payload = ObjectField(required=False, default=dict)


class ClaimBody(StrictSerializer):
    """Something unfinished on a session."""

    kind = serializers.ChoiceField(ClaimKind.choices)
    note = HostileTextField(required=False, default="", max_length=TITLE_LIMIT)


class NoBody(StrictSerializer):
    """An empty object, or nothing at all."""

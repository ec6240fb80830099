"""The shapes of answers about sessions, for OpenAPI only: ``sessions.api.projections`` makes them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from sessions.api.fields import ObjectField
from sessions.choices import (
    Activity,
    BindingState,
    ClaimKind,
    EventKind,
    ForkContract,
    InteractionKind,
    InteractionState,
    MemberRole,
    SessionKind,
    SyncState,
    TurnOutcome,
    TurnPhase,
    Visibility,
)


class Shape(serializers.Serializer[Any]):
    """An object whose members are all present."""


class RunnerNameSerializer(Shape):
    """A machine, by name."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class CapabilitiesSerializer(Shape):
    """`fork`: at the last settled turn. `forkThroughTurn`: at any settled turn that is bound. `reason`: why not."""

    fork = serializers.BooleanField()
    forkThroughTurn = serializers.BooleanField()
    reason = serializers.CharField(allow_null=True)


class LineageSerializer(Shape):
    """Where a fork came from: made by which operation, at which turn."""

    sourceAgentSessionId = serializers.UUIDField()
    sourceTurnId = serializers.UUIDField(allow_null=True)
    targetTurnId = serializers.UUIDField(allow_null=True)
    operationId = serializers.UUIDField()
    forkedAtUnixMs = serializers.IntegerField()


class ObservedParentSerializer(Shape):
    """Where a fork made outside forkhost says it came from; the first id is null while that session is not known."""

    agentSessionId = serializers.UUIDField(allow_null=True)
    providerSessionId = serializers.CharField()


class SessionSerializer(Shape):
    """One conversation, as far as it is known here."""

    id = serializers.UUIDField()
    workspaceId = serializers.UUIDField()
    provider = serializers.CharField()
    providerSessionId = serializers.CharField(allow_null=True)
    runner = RunnerNameSerializer(allow_null=True)
    kind = serializers.ChoiceField(SessionKind.choices)
    rootAgentSessionId = serializers.UUIDField(allow_null=True)
    parentAgentSessionId = serializers.UUIDField(allow_null=True)
    parentTurnId = serializers.UUIDField(allow_null=True)
    parentToolCallId = serializers.CharField(allow_null=True)
    title = serializers.CharField()
    preview = serializers.CharField()
    cwd = serializers.CharField()
    model = serializers.CharField()
    settings = ObjectField()
    visibility = serializers.ChoiceField(Visibility.choices)
    pin = serializers.BooleanField()
    detached = serializers.BooleanField(help_text="Shown apart from its source; `forkedFrom` stays.")
    deletedAtUnixMs = serializers.IntegerField(allow_null=True)
    createdAtUnixMs = serializers.IntegerField()
    updatedAtUnixMs = serializers.IntegerField()
    turnCount = serializers.IntegerField()
    lastSeq = serializers.IntegerField()
    seedLength = serializers.IntegerField()
    historyRevision = serializers.IntegerField()
    activity = serializers.ChoiceField(Activity.choices)
    lifecycleCapabilities = CapabilitiesSerializer()
    forkedFrom = LineageSerializer(allow_null=True)
    observedParent = ObservedParentSerializer(allow_null=True)
    resumeCommand = serializers.CharField(allow_null=True)


class TotalsField(serializers.DictField):
    """Numbers by name, as the provider records them."""

    child = serializers.FloatField()


class UsageSerializer(Shape):
    """What a session's turns used. `inherited` belongs to its source, and is counted there."""

    own = TotalsField()
    inherited = TotalsField()


class TranscriptProblemSerializer(Shape):
    """What is wrong, as a stable code and a sentence."""

    code = serializers.CharField()
    message = serializers.CharField()


class TranscriptSerializer(Shape):
    """How far the agent's own transcript is in the history; its sizes are 0 until it was looked at."""

    state = serializers.ChoiceField(SyncState.choices)
    bytesDone = serializers.IntegerField()
    bytesTotal = serializers.IntegerField()
    damagedLines = serializers.IntegerField(help_text="Lines that could not be read and were left out.")
    problem = TranscriptProblemSerializer(allow_null=True)


class SessionDetailSerializer(SessionSerializer):
    """One conversation, with what it used and how far its transcript is read (null: it has none)."""

    usage = UsageSerializer()
    transcript = TranscriptSerializer(allow_null=True)


class TurnForkSerializer(Shape):
    """A fork made at a turn."""

    agentSessionId = serializers.UUIDField()
    title = serializers.CharField()
    operationId = serializers.UUIDField()
    forkedAtUnixMs = serializers.IntegerField()


class TurnSerializer(Shape):
    """One user submission and all that followed; immutable once `phase` is `settled`."""

    id = serializers.UUIDField()
    ordinal = serializers.IntegerField()
    phase = serializers.ChoiceField(TurnPhase.choices)
    outcome = serializers.ChoiceField(TurnOutcome.choices, allow_null=True)
    prompt = serializers.CharField(help_text="The first 200 characters.")
    model = serializers.CharField()
    firstSeq = serializers.IntegerField()
    lastSeq = serializers.IntegerField(allow_null=True)
    startedAtUnixMs = serializers.IntegerField()
    settledAtUnixMs = serializers.IntegerField(allow_null=True)
    usage = TotalsField(help_text="Tokens and cost; empty where the provider records none.")
    bindingState = serializers.ChoiceField(BindingState.choices)
    forkable = serializers.BooleanField()
    reason = serializers.CharField(allow_null=True, help_text="A stable code: why it cannot be forked at.")
    inherited = serializers.BooleanField()
    forks = TurnForkSerializer(many=True)


class EventSerializer(Shape):
    """One record of a history. `payload` holds what an agent wrote: treat it as hostile."""

    seq = serializers.IntegerField()
    messageId = serializers.UUIDField(allow_null=True)
    turnId = serializers.UUIDField(allow_null=True)
    kind = serializers.ChoiceField(EventKind.choices)
    atUnixMs = serializers.IntegerField()
    payload = ObjectField()
    inherited = serializers.BooleanField()


class AppendedSerializer(Shape):
    """The seqs that were written."""

    firstSeq = serializers.IntegerField()
    lastSeq = serializers.IntegerField()
    turnCount = serializers.IntegerField()


class InteractionSerializer(Shape):
    """What was asked and answered is in the events at `askedSeq` and `closedSeq`."""

    id = serializers.UUIDField()
    key = serializers.CharField()
    turnOrdinal = serializers.IntegerField(allow_null=True)
    kind = serializers.ChoiceField(InteractionKind.choices)
    state = serializers.ChoiceField(InteractionState.choices)
    askedSeq = serializers.IntegerField()
    closedSeq = serializers.IntegerField(allow_null=True)
    inherited = serializers.BooleanField()


class ClaimSerializer(Shape):
    """Something unfinished on a session; open while `settledAtUnixMs` is null."""

    id = serializers.UUIDField()
    agentSessionId = serializers.UUIDField()
    kind = serializers.ChoiceField(ClaimKind.choices)
    note = serializers.CharField()
    createdAtUnixMs = serializers.IntegerField()
    settledAtUnixMs = serializers.IntegerField(allow_null=True)


class FamilyMemberSerializer(Shape):
    """One line of an indented list: the root first, each session under what it came from."""

    depth = serializers.IntegerField()
    relation = serializers.CharField()
    lineage = LineageSerializer(allow_null=True)
    session = SessionSerializer()


class WorkspaceSerializer(Shape):
    """A workspace, and the caller's role in it."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    slug = serializers.CharField()
    forkContract = serializers.ChoiceField(ForkContract.choices)
    forksEnabled = serializers.BooleanField()
    role = serializers.ChoiceField(MemberRole.choices)


class HomeSerializer(Shape):
    """An agent's state folder, and what the agent there can do."""

    id = serializers.UUIDField()
    provider = serializers.CharField()
    path = serializers.CharField()
    driverKind = serializers.CharField(allow_null=True)
    driverVersion = serializers.CharField(allow_null=True)
    points = serializers.CharField(allow_null=True)
    reason = serializers.CharField(allow_null=True)
    detail = serializers.CharField(allow_null=True)
    attestedAtUnixMs = serializers.IntegerField(allow_null=True)


class RunnerSerializer(Shape):
    """A machine that does work; away when its heartbeat is old."""

    id = serializers.UUIDField()
    workspaceId = serializers.UUIDField()
    name = serializers.CharField()
    lastSeenAtUnixMs = serializers.IntegerField(allow_null=True)
    homes = HomeSerializer(many=True)


class HitSerializer(Shape):
    """A session that matches, and the first event it shows that does; null when its title or id matched instead."""

    session = SessionSerializer()
    seq = serializers.IntegerField(allow_null=True)
    kind = serializers.ChoiceField(EventKind.choices, allow_null=True)
    turnOrdinal = serializers.IntegerField(allow_null=True, help_text="Null for a standalone event too.")
    prompt = serializers.CharField()
    snippet = serializers.CharField(help_text="Plain text around the words found; never HTML.")


class ExportSerializer(Shape):
    """A whole session. `events` are all of them, `digest` the running digest at the last."""

    session = SessionSerializer()
    events = EventSerializer(many=True)
    count = serializers.IntegerField()
    digest = serializers.CharField(allow_null=True)


def list_of(item: type[Shape], name: str) -> type[Shape]:
    """The shape of one page of items."""
    members = {
        "items": item(many=True),
        "nextCursor": serializers.CharField(allow_null=True, help_text="Opaque; null at the end."),
    }
    return type(f"{name}ListSerializer", (Shape,), members)


SessionList = list_of(SessionSerializer, "Session")
TurnList = list_of(TurnSerializer, "Turn")
EventList = list_of(EventSerializer, "Event")
InteractionList = list_of(InteractionSerializer, "Interaction")
ClaimList = list_of(ClaimSerializer, "Claim")

WorkspaceList = list_of(WorkspaceSerializer, "Workspace")
RunnerList = list_of(RunnerSerializer, "Runner")


class HitList(list_of(HitSerializer, "Hit")):  # type: ignore[misc]
    """One page of what was found."""

    truncated = serializers.BooleanField(help_text="The words are common, and the oldest places were not looked at.")


class FamilyList(list_of(FamilyMemberSerializer, "Family")):  # type: ignore[misc]
    """A family; `usage` counts each turn once, however many of its sessions show it."""

    usage = TotalsField()

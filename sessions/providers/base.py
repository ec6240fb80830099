"""The contract between forkhost and an agent.

One adapter class per kind of agent stands behind :class:`Adapter`. Adapters know no model and no HTTP of ours: plain
dataclasses in, plain dataclasses out. They are found through the entry-point group ``forkhost.providers``, so that
nothing else ever branches on a provider's name.

All times are Unix milliseconds. All ids of a provider are opaque strings, compared byte for byte. ``Json`` values hold
only what the standard ``json`` module can write (lone surrogates and NUL included).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

Json: TypeAlias = dict[str, Any]


class EventKind(enum.StrEnum):
    """The closed list of records a history log holds."""

    TURN_START = "turn.start"
    TURN_END = "turn.end"
    MESSAGE_USER = "message.user"
    MESSAGE_ASSISTANT = "message.assistant"
    REASONING = "reasoning"
    TOOL_CALL = "tool.call"
    TOOL_RESULT = "tool.result"
    CONTEXT = "context"
    COMPACTION = "compaction"
    INTERACTION_ASKED = "interaction.asked"
    INTERACTION_ANSWERED = "interaction.answered"
    INTERACTION_SUPERSEDED = "interaction.superseded"
    NOTE = "note"


class Outcome(enum.StrEnum):
    """How a settled turn ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"


class PointSupport(enum.StrEnum):
    """Where a provider's own fork can cut."""

    ANY_TURN = "any-turn"
    LATEST_TURN = "latest-turn"
    UNSUPPORTED = "unsupported"


class IdentityMode(enum.StrEnum):
    """How a child made by a call whose answer was lost can be recognised; decides what its absence proves."""

    ANNOUNCED = "announced"
    MARKER = "marker"
    SEARCH = "search"


class BindingMode(enum.StrEnum):
    """Who ties inherited turns to the child's own ids."""

    HOST_COPY = "host_copy"
    PROVIDER_OWNED = "provider_owned"


class MatchStrength(enum.StrEnum):
    """How sure a look-up is that a candidate is the child of one operation."""

    EXACT = "exact"
    LIKELY = "likely"
    NONE = "none"


# --------------------------------------------------------------------------------------------------------------------
# What exists


@dataclass(frozen=True, slots=True)
class HomeRef:
    """A provider's state folder on this machine, e.g. ``CODEX_HOME`` or ``CLAUDE_CONFIG_DIR``. ``path`` is absolute."""

    provider: str
    path: Path


@dataclass(frozen=True, slots=True)
class SessionRef:
    """One session of a provider. ``path`` is the transcript file found by ``discover`` (None where there is none)."""

    home: HomeRef
    provider_session_id: str
    path: Path | None
    cwd: str


@dataclass(frozen=True, slots=True)
class TurnBinding:
    """What ties a canonical turn to the provider's.

    ``provider_turn_id`` is unique within a session only. ``data`` is owned by the adapter and opaque to everybody else
    (for Claude it holds the checkpoint row). An adapter that cannot fork at the turn leaves ``provider_turn_id`` empty
    and says why in ``reason`` (a stable code such as ``turn_id_synthesized``).
    """

    provider_turn_id: str
    data: Json = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Attestation:
    """What one runtime proved about itself, without side effects. Only workers attest; pages read the stored copy.

    ``fingerprint`` is a digest over argv, cwd, the allow-listed environment, and the executable's resolved path, size,
    mtime and verified identity. ``longest_fork_seconds`` bounds the native call. ``reason`` is a stable code and
    ``detail`` a sentence, both empty when ``points`` is not ``unsupported``.
    """

    driver_kind: str
    driver_version: str
    fingerprint: str
    points: PointSupport
    whole_session: bool
    binding_mode: BindingMode
    identity_mode: IdentityMode
    longest_fork_seconds: float
    reason: str = ""
    detail: str = ""
    executable: str = ""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The content-free facts about a session that ``can_fork`` may look at."""

    provider_session_id: str
    provider_version: str
    cwd: str
    damaged: bool
    extra: Json = field(default_factory=dict)


# --------------------------------------------------------------------------------------------------------------------
# Discovering and reading (never writes, never starts a model)


@dataclass(frozen=True, slots=True)
class DiscoveredSession:
    """One session found in a home by a quick look at its head, cheap enough for ten thousand files.

    ``stamp`` changes whenever the transcript changes (size and mtime). ``title`` may be empty, ``preview`` is the first
    prompt cut to 200 characters. ``fork_operation_id`` is the marker of one of our own forks found in the child;
    ``observed_parent_id`` the provider session it names as origin. ``parent_provider_session_id`` is set for a
    sub-agent's lane only, together with the tool call that started it. ``extra`` ends up in ``SessionFacts.extra``.
    """

    ref: SessionRef
    stamp: str
    title: str
    preview: str
    created_at_ms: int
    updated_at_ms: int
    size: int
    provider_version: str
    model: str = ""
    observed_parent_id: str = ""
    fork_operation_id: str = ""
    parent_provider_session_id: str = ""
    parent_tool_call_id: str = ""
    worktree_isolated: bool = False
    settings: Json = field(default_factory=dict)
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadRestart:
    """First item of a stream that starts over at the beginning because ``since`` no longer fits what is there."""


@dataclass(frozen=True, slots=True)
class ReadTurnStart:
    """A turn begins. Its prompt is also emitted as a ``message.user`` record. ``model``/``effort`` are those in force."""

    at_ms: int
    binding: TurnBinding
    prompt: str
    model: str = ""
    effort: str = ""
    origin: str = "user"


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """One record, inside the open turn, or standalone when none is open. Never ``turn.start`` or ``turn.end``.

    Payload shapes (all text may be hostile; unknown extra keys are kept):
    message.user / message.assistant / reasoning / context / note: ``{"text": str}`` (+ ``"images": [{"mediaType", "sha256", "path", "url", "data"}]``,
    ``data`` being base64; the importer stores the bytes of ``data``, of a ``data:`` URL or of ``path`` by their digest)
    tool.call: ``{"callId": str, "name": str, "input": any}``
    tool.result: ``{"callId": str, "output": str, "isError": bool, "exitCode"?: int}``
    compaction: ``{"text": str, "trigger"?: str}``
    interaction.*: ``{"interactionId": str, "kind": "question"|"approval"|"plan", ...}``
    """

    kind: EventKind
    at_ms: int
    payload: Json


@dataclass(frozen=True, slots=True)
class ReadBinding:
    """The latest turn's binding moved forward (trailing rows arrived); legal until the next turn starts."""

    binding: TurnBinding


@dataclass(frozen=True, slots=True)
class ReadTurnEnd:
    """The open turn is settled, on positive proof only. ``usage`` = tokens and cost where the provider records them."""

    at_ms: int
    outcome: Outcome
    binding: TurnBinding
    usage: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadDamage:
    """A line that could not be read. ``line`` counts from 1. Never fatal."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReadTitle:
    """The session's own title changed."""

    title: str


@dataclass(frozen=True, slots=True)
class ReadCursor:
    """Everything before this item has been delivered; pass ``cursor`` as ``since`` to go on after it.

    Emitted at least every few hundred events and as the last item of every stream. ``done`` and ``total`` are bytes.
    """

    cursor: Json
    done: int
    total: int


ReadItem: TypeAlias = (
    ReadRestart | ReadTurnStart | ReadEvent | ReadBinding | ReadTurnEnd | ReadDamage | ReadTitle | ReadCursor
)


# --------------------------------------------------------------------------------------------------------------------
# Forking


@dataclass(frozen=True, slots=True)
class ForkTurn:
    """The chosen turn, as prepare froze it. ``ordinal`` counts from 1 and is for messages only, never for addressing."""

    binding: TurnBinding
    ordinal: int


@dataclass(frozen=True, slots=True)
class ForkSettings:
    """What the child must run with; passed explicitly to the provider. Empty = not recorded by the source."""

    model: str = ""
    effort: str = ""
    permission_mode: str = ""
    approval_policy: str = ""
    sandbox: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """One native fork. ``marker`` is ours and unique to the operation; ``title`` is the child's.

    ``prefix`` is the ordered list of the source's bindings through the chosen turn; only its last one has to be proven
    under the optimistic contract, all of it when ``require_prefix`` is set.
    """

    operation_id: str
    marker: str
    source: SessionRef
    turn: ForkTurn
    prefix: Sequence[TurnBinding]
    title: str
    settings: ForkSettings
    attestation: Attestation
    require_prefix: bool = False


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The process (group leader) that makes the call; it is dead when no process of that group is left on this boot."""

    pid: int
    started_at: str
    boot_id: str


class ForkReporter(Protocol):
    """How an adapter tells the saga about facts the moment they are known. Each call is durable when it returns.

    Both raise :class:`Fenced` when this worker no longer owns the operation: the adapter must then make no call and
    write nothing more.
    """

    def process_started(self, process: ProcessIdentity) -> None:
        """Must be called before the native call, once the process that will make it runs."""

    def announce(self, child_provider_session_id: str) -> None:
        """Must be called as early as the child's id is known; in announced mode before the child can exist."""


@dataclass(frozen=True, slots=True)
class TurnMapping:
    """The source's provider turn id and the same turn's binding in the child."""

    source_provider_turn_id: str
    target: TurnBinding


@dataclass(frozen=True, slots=True)
class ForkAccepted:
    """The child exists, is readable, is not the source, and ends at the chosen turn.

    ``mapping`` is ordered; its last entry is the chosen turn. ``kept`` says that every inherited turn keeps the
    source's binding (then ``mapping`` may hold the last entry alone). ``receipt`` is JSON for people and programs: at
    least ``childProviderSessionId``, ``path``, ``verified`` (list of what was checked); ``dependsOnSourceFiles`` where
    the child needs the source's files. ``warnings`` are sentences (the title could not be set, ...).
    """

    child_provider_session_id: str
    mapping: Sequence[TurnMapping]
    kept: bool
    receipt: Json
    child_path: Path | None
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that may be the child of an operation, with what was seen.

    ``torn``: certainly made by this operation's call and broken off, with nothing of anybody else in it; the only kind
    of child that :meth:`Adapter.remove_torn` may remove. ``facts["problem"]`` says in words why it is not the child.
    """

    provider_session_id: str
    strength: MatchStrength
    complete: bool
    created_at_ms: int
    path: Path | None
    facts: Json = field(default_factory=dict)
    torn: bool = False


@dataclass(frozen=True, slots=True)
class ChildSearch:
    """What ``find_children`` saw. ``absence_proves`` holds only once the calling process is verified dead."""

    method: str
    candidates: Sequence[Candidate]
    absence_proves: bool
    detail: str = ""


class ProviderError(Exception):
    """Base of everything an adapter raises on purpose. ``code`` is stable, the message is a sentence for people."""

    def __init__(self, code: str, message: str, *, child_provider_session_id: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.child_provider_session_id = child_provider_session_id


class NotStarted(ProviderError):
    """Proven that nothing was sent."""


class Rejected(ProviderError):
    """The provider said no with an answer the adapter lists as "nothing made"."""


class Unknown(ProviderError):
    """The call may have made a child. ``child_provider_session_id`` names it where known (``wrong_child``)."""


class Unreadable(ProviderError):
    """A source or child cannot be read: ``source_transcript_missing``, ``source_damaged``, ``home_missing``, ..."""


class Fenced(Exception):
    """This worker no longer owns the operation."""


class Adapter(Protocol):
    """One kind of agent. Instances hold no state about sessions and may be used from several threads."""

    provider: ClassVar[str]
    label: ClassVar[str]

    def default_home(self, environ: Mapping[str, str]) -> HomeRef | None:
        """The state folder the agent itself would use, or None when it does not exist on this machine."""

    def attest(self, home: HomeRef) -> Attestation:
        """Prove version and capability without side effects. Never raises: what is missing becomes ``unsupported``."""

    def discover(self, home: HomeRef, known: Mapping[str, str]) -> Iterator[DiscoveredSession]:
        """Sessions of the home whose stamp differs from ``known`` (provider session id to stamp), newest first.

        Raises :class:`Unreadable` when the home itself is gone. Damaged files are skipped or listed, never fatal.
        """

    def present(self, home: HomeRef) -> set[str]:
        """Provider session ids that exist in the home now (for noticing what is gone)."""

    def read(self, ref: SessionRef, since: Json | None, after: TurnBinding | None) -> Iterator[ReadItem]:
        """Stream the canonical history, oldest first, in bounded memory.

        ``since`` is a cursor of an earlier stream or None. ``after`` is given for a child that forkhost made: deliver
        only what follows that turn (the inherited rows are already known). An open turn is delivered without an end.
        Raises :class:`Unreadable`.
        """

    def can_fork(self, attestation: Attestation | None, facts: SessionFacts, binding: TurnBinding | None) -> str:
        """The one hook used by pages, API and saga: "" when the turn can be forked at, else a stable reason code.

        Pure and content-free: touches no file and no process. ``binding`` None asks about the session as a whole.
        """

    def explain(self, reason: str) -> str:
        """One sentence for a reason code of this adapter; the code itself when it is not one of its own."""

    def confirm_turn(self, request: ForkRequest) -> None:
        """Check in the provider's own source that the turn is there and settled; read-only, before the call.

        Raises :class:`Rejected` (gone, in progress), :class:`Unreadable`.
        """

    def fork(self, request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
        """Exactly one native call, verified. Raises NotStarted, Rejected, Unknown; never retries."""

    def verify(self, request: ForkRequest, child_provider_session_id: str) -> ForkAccepted:
        """Prove a child found later (adopted) as ``fork`` proves its own; read-only. Raises Unreadable, Rejected."""

    def find_children(self, request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
        """Read-only look for the child of an unknown operation. Raises :class:`Unreadable`."""

    def remove_torn(self, request: ForkRequest, candidate: Candidate) -> Json:
        """Remove one torn child from the home, because an operator named it; the one deletion an adapter knows.

        ``candidate`` comes from a fresh ``find_children``. Proves again that it is torn and this operation's own, and
        touches nothing else. Returns ``{"childProviderSessionId", "path", "bytes", "sha256"}`` of what was removed.
        Raises :class:`Rejected` (``not_torn``, or something depends on it), :class:`Unreadable`; nothing is removed then.
        """

    def bind(self, request: ForkRequest, accepted: ForkAccepted, target: HomeRef) -> Json:
        """Make the child readable in ``target``; idempotent, crash-durable; the same home only verifies.

        Returns the evidence. Raises :class:`Unreadable`, :class:`Rejected` (anything that is not a strict prefix).
        """

    def resume_command(self, ref: SessionRef) -> str:
        """What a person types in a terminal to go on, quoted for a POSIX shell, "" where there is none."""

"""The one native call: starts the fork process, speaks with it, and says what its answer (or silence) means.

Before the go is given the process may not write, so whatever goes wrong until then has made nothing. After the go only
an answer of the process itself proves that nothing was made.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from sessions.providers.base import (
    ForkAccepted,
    ForkReporter,
    ForkRequest,
    Json,
    NotStarted,
    ProcessIdentity,
    Rejected,
    Unknown,
)
from sessions.providers.claude import evidence
from sessions.providers.claude.attestation import runtime
from sessions.providers.claude.registry_files import process_started_at
from sessions.providers.crashpoints import CrashPoint, crash_point, handed_on

READY_SECONDS = 60.0
TITLE_SECONDS = 20.0
KILLED_SECONDS = 10.0
VERIFIED = (
    "the child names the source as origin",
    "every inherited row equals the source's, in order, through the chosen turn",
    "messages kept by a compaction are kept",
    "the child was written whole",
    "permissions are the source's",
)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Silence(Exception):
    """The process ended, or did not answer in time."""


class _Process:
    """The running fork process. Leaving the block kills its group when it has not ended by itself."""

    def __init__(self, request: ForkRequest) -> None:
        started_with = runtime(request.source.home)
        self._process = subprocess.Popen(
            list(started_with.argv),
            cwd=started_with.cwd,
            env={**started_with.environment, **handed_on()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._buffer = b""

    def __enter__(self) -> _Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def identity(self) -> ProcessIdentity:
        pid = self._process.pid
        boot_id = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
        return ProcessIdentity(pid, process_started_at(pid) or "", boot_id)

    def say(self, message: Json) -> None:
        """Raises ``_Silence`` when nobody listens any more."""
        assert self._process.stdin is not None  # noqa: S101 - given to Popen above
        try:
            self._process.stdin.write(json.dumps(message).encode("ascii") + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise _Silence from error

    def hear(self, seconds: float) -> Json:
        """The next message. Raises ``_Silence``."""
        assert self._process.stdout is not None  # noqa: S101 - given to Popen above
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise _Silence
            chunk = os.read(descriptor, 65536)
            if not chunk:
                raise _Silence
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: Json = json.loads(line)
        return message

    def stop(self) -> bool:
        """End the process and its group; True when they are proven dead."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            self._process.wait(KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True


def fork(request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
    """Exactly one native call. Raises NotStarted, Rejected, Unknown, and Fenced as the reporter raised it."""
    source = request.source.path
    checkpoint = evidence.checkpoint_of(request.turn.binding)
    if source is None or not checkpoint:
        raise NotStarted(
            "turn_not_bound", "The turn is not tied to a row of the transcript, so it cannot be forked at."
        )
    try:
        process = _Process(request)
    except OSError as error:
        raise NotStarted("fork_process_not_started", f"The fork process did not start: {error.strerror}.") from error
    with process:
        reporter.process_started(process.identity())
        try:
            cut = evidence.cut_at(source, checkpoint)
            before = evidence.prefix_sha256(source, cut.end) if cut else ""
        except OSError as error:
            raise NotStarted("source_unreadable", "The source's transcript could not be read.") from error
        if cut is None:
            raise NotStarted("turn_missing", "The turn is no longer in the source's transcript.")
        child_id = _call(process, request, source, checkpoint, reporter)
        accepted = verified(request, child_id)
        if evidence.prefix_sha256(source, cut.end) != before:
            raise Unknown(
                "source_changed", "The source was rewritten during the fork.", child_provider_session_id=child_id
            )
        accepted.receipt["sourceSha256"] = before
        warning = _set_title(process, request)
    if not warning:
        return accepted
    return ForkAccepted(
        accepted.child_provider_session_id,
        accepted.mapping,
        accepted.kept,
        accepted.receipt,
        accepted.child_path,
        [warning],
    )


def _call(process: _Process, request: ForkRequest, source: Path, checkpoint: str, reporter: ForkReporter) -> str:
    child_id = _until_announced(process, request, source, checkpoint)
    reporter.announce(child_id)
    try:
        process.say({"go": True})
        crash_point(CrashPoint.DURING_CALL)
        answer = process.hear(request.attestation.longest_fork_seconds)
    except _Silence:
        # Names no child: nobody saw one. Its id is announced, and a look-up goes by that.
        dead = process.stop()
        raise Unknown(
            "fork_process_lost",
            "The fork process ended or was ended without an answer."
            if dead
            else "The fork process neither answers nor ends.",
        ) from None
    if answer.get("event") == "refused":
        raise Rejected(str(answer["reason"]), f"The fork was not made: {answer['message']}.")
    if answer.get("event") != "made" or answer.get("child") != child_id:
        detail = f"The fork ended unclearly: {answer.get('message') or 'an unexpected answer'}."
        raise Unknown("fork_unclear", detail, child_provider_session_id=child_id)
    crash_point(CrashPoint.AFTER_CHILD_MADE)
    return child_id


def _until_announced(process: _Process, request: ForkRequest, source: Path, checkpoint: str) -> str:
    """Everything before the go: nothing can have been written, however this ends."""
    order: Json = {
        "source": str(source),
        "sessionId": request.source.provider_session_id,
        "checkpoint": checkpoint,
        "title": request.marker,
    }
    try:
        answer = process.hear(READY_SECONDS)
        if answer.get("event") == "ready":
            process.say(order)
            answer = process.hear(request.attestation.longest_fork_seconds)
    except _Silence:
        process.stop()
        raise NotStarted("fork_process_lost", "The fork process ended before it was allowed to write.") from None
    if answer.get("event") == "refused":
        raise Rejected(str(answer["reason"]), f"The fork was refused: {answer['message']}.")
    child_id = answer.get("child")
    if answer.get("event") != "announce" or not isinstance(child_id, str) or not child_id:
        raise NotStarted("fork_process_confused", "The fork process gave no id for the child.")
    if child_id == request.source.provider_session_id:
        raise NotStarted("fork_process_confused", "The fork process named the source as its own child.")
    return child_id


def _set_title(process: _Process, request: ForkRequest) -> str:
    """Give the child its title; returns a sentence when that failed. The marker's row stays in the file."""
    title = request.title.strip()
    if not title or title == request.marker:
        return ""
    try:
        process.say({"title": title})
        answer = process.hear(TITLE_SECONDS)
    except _Silence:
        return "The fork's title could not be set, because the fork process had ended."
    if answer.get("event") == "titled":
        return ""
    return f"The fork's title could not be set: {answer.get('message')}."


def child_path(request: ForkRequest, child_id: str) -> Path | None:
    """Where a child of this source lies, None when the id cannot be a file name."""
    source = request.source.path
    if source is None or not child_id or os.path.basename(child_id) != child_id:
        return None
    return source.parent / f"{child_id}.jsonl"


def proven(request: ForkRequest, child_id: str) -> ForkAccepted:
    """Compare the child with the source. Raises ``evidence.WrongChild``, ``OSError``."""
    source, path = request.source.path, child_path(request, child_id)
    if source is None or path is None or child_id == request.source.provider_session_id:
        raise evidence.WrongChild("its id is not one of a child")
    turn = request.turn.binding
    checkpoint = evidence.checkpoint_of(turn)
    proof = evidence.prove_child(source, request.source.provider_session_id, path, child_id, checkpoint)
    if proof.title != request.marker:
        raise evidence.WrongChild("it carries the mark of another fork")
    receipt: dict[str, Any] = {
        "childProviderSessionId": child_id,
        "path": str(path),
        "verified": list(VERIFIED),
        "inheritedRows": proof.rows,
        "cutAt": checkpoint,
    }
    if proof.permission_mode:
        receipt["permissionMode"] = proof.permission_mode
    if proof.files:
        receipt["dependsOnSourceFiles"] = proof.files
    return ForkAccepted(child_id, evidence.mapping_of(proof, request.prefix, turn), False, receipt, path)


def verified(request: ForkRequest, child_id: str) -> ForkAccepted:
    """The child just made, proven. Raises Unknown(``wrong_child``): it exists, so it may not be forgotten."""
    try:
        return proven(request, child_id)
    except evidence.WrongChild as error:
        detail = f"The fork made a session that is not the requested one: {error}."
        raise Unknown("wrong_child", detail, child_provider_session_id=child_id) from error
    except OSError as error:
        detail = f"The fork's transcript could not be read back: {error.strerror}."
        raise Unknown("child_unreadable", detail, child_provider_session_id=child_id) from error

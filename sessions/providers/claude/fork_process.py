"""The process that makes a native fork: ``python -m sessions.providers.claude.fork_process [--attest]``.

It runs apart from the worker, so that a big transcript neither stops the worker's lease renewal nor stays in its
memory, and so that it can be killed and proven dead. It speaks JSON lines on its pipes and touches no file before it
is told to:

======================  ============================================================================================
it says                 meaning
======================  ============================================================================================
``ready``               loaded; with ``--attest`` it carries ``facts`` and the process ends
``announce``            the child's id; nothing is written until ``{"go": true}`` is answered
``made``                the child exists, whole and durable
``refused``             nothing was made; ``reason`` and ``message``
``unclear``             something failed after the child may have come into being
``titled`` / ``untitled``  answer to ``{"title": ...}``
======================  ============================================================================================

The end of its input means: stop, and write nothing more.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from sessions.providers.claude import sdk
from sessions.providers.claude.local_store import LocalAtomicStore, TitleStore
from sessions.providers.crashpoints import CrashPoint, crash_point


class _Stopped(Exception):
    """The worker went away or did not give the go."""


class _Pipes:
    """Messages to and from the worker. Anything else that prints goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="ascii")
        os.dup2(2, 1)

    def say(self, event: str, **fields: Any) -> None:
        self._out.write(json.dumps({"event": event, **fields}) + "\n")
        self._out.flush()

    def hear(self) -> dict[str, Any]:
        line = sys.stdin.readline()
        if not line.endswith("\n"):
            raise _Stopped
        message: dict[str, Any] = json.loads(line)
        return message


def main(arguments: list[str]) -> int:
    pipes = _Pipes()
    try:
        module = sdk.load()
    except sdk.SdkMissing as error:
        pipes.say("refused", reason="claude_sdk_missing", message=str(error))
        return 1
    if "--attest" in arguments:
        pipes.say("ready", facts=sdk.facts(module))
        return 0
    pipes.say("ready")
    try:
        order = pipes.hear()
        if _fork(pipes, module, order):
            _title(pipes, module, order, pipes.hear())
    except _Stopped:
        return 1
    return 0


def _fork(pipes: _Pipes, module: Any, order: dict[str, Any]) -> bool:
    announced: list[str] = []

    def announce(child_id: str) -> None:
        announced.append(child_id)
        pipes.say("announce", child=child_id)
        if pipes.hear().get("go") is not True:
            raise _Stopped

    store = LocalAtomicStore(Path(order["source"]), order["sessionId"], order["checkpoint"], announce)
    try:
        child_id = sdk.fork(module, store, order["sessionId"], order["checkpoint"], order["title"])
    except (OSError, ValueError, MemoryError, RecursionError) as error:
        # The file gets its name as the last step but one; unless that happened, nothing was made.
        target = Path(order["source"]).parent / f"{announced[0]}.jsonl" if announced else None
        made = target is not None and os.path.lexists(target)
        pipes.say("unclear" if made else "refused", reason=_reason(error), message=str(error) or type(error).__name__)
        return False
    crash_point(CrashPoint.AGENT_WROTE_CHILD)
    order["child"] = child_id
    pipes.say("made", child=child_id)
    return True


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "source_transcript_missing"
    if isinstance(error, OSError):
        return "child_not_written"
    return "out_of_memory" if isinstance(error, MemoryError) else "point_refused"


def _title(pipes: _Pipes, module: Any, order: dict[str, Any], wish: dict[str, Any]) -> None:
    store = TitleStore(Path(order["source"]).parent / f"{order['child']}.jsonl")
    try:
        sdk.rename(module, store, order["child"], str(wish["title"]))
    except (OSError, ValueError) as error:
        pipes.say("untitled", message=str(error) or type(error).__name__)
        return
    pipes.say("titled")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Makes the samples of the demo: real agents run the conversations offline, and forkhost forks two of them.

The agents' homes lie in the demo's data folder, and their models are stand-ins on this machine; nothing of the person's
own agents is touched. The forks are the real thing: prepared, sent once to the agent, committed.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from django.contrib.auth.models import User
from django.db import connections

from forkhost.demo import claude_home, codex_home, samples
from forkhost.demo.mock_messages import MockMessages, Reply, ToolUse
from forkhost.demo.mock_responses import MockResponses
from forkhost.demo.samples import Exchange, Fork, Sample
from forkhost.kit.stopping import StopFlag
from operations import worker as operations_worker
from operations.choices import OPEN_STATUSES, OperationStatus
from operations.models import Operation
from operations.points import parse_point
from operations.requests import PrepareRequest
from operations.saga import prepare
from sessions import capabilities, history, runners, workspaces
from sessions.choices import SyncState
from sessions.models import Session
from sessions.worker import SessionWorker

MADE = "samples-made"
WAIT_SECONDS = 120.0

Say = Callable[[str], None]
Found = TypeVar("Found")


class SampleFailed(Exception):
    """A sample did not come about; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Made:
    """A sample that ran. ``go_on`` runs further prompts in a session of the same agent, named by its provider's id."""

    provider_session_id: str
    sample: Sample
    go_on: Callable[[str, Sequence[str]], None]


class Maker:
    """Everything about making the samples: the agents' homes below ``folder``, who both work in ``project``."""

    def __init__(self, folder: Path, project: Path, say: Say) -> None:
        self.folder = folder
        self.say = say
        self.project = project
        self.claude = claude_home.make_home(folder / "claude", project)
        self.codex = folder / "codex"

    def use_homes(self) -> None:
        """Make this process and its children see the demo's agents instead of the person's."""
        self.codex.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ["CODEX_HOME"] = str(self.codex)
        os.environ["CLAUDE_CONFIG_DIR"] = str(self.claude.config)

    def make(self, user: User) -> None:
        """Make the samples unless they were made before. One agent that cannot run leaves the other's in place."""
        if (self.folder / MADE).exists():
            return
        for name, text in samples.PROJECT.items():
            (self.project / name).write_text(text, encoding="utf-8")
        with ExitStack() as stack:
            responses = stack.enter_context(MockResponses(_answers(samples.CODEX), _cues(samples.CODEX)))
            messages = stack.enter_context(MockMessages(_script(samples.CLAUDE)))
            codex_home.make_home(self.codex, responses.base_url)
            made = [
                *self._try("Codex", self._make_codex),
                *self._try("Claude Code", lambda: self._make_claude(messages)),
            ]
            if not made:
                raise SampleFailed("No agent could run here, so there are no samples.")
            self._fork_some(user, made)
        (self.folder / MADE).touch()

    def _try(self, agent: str, make: Callable[[], list[Made]]) -> list[Made]:
        self.say(f"Making sample sessions with {agent} ...")
        try:
            return make()
        except Exception as error:
            self.say(f"{agent} cannot run here ({type(error).__name__}: {error}); its samples are left out.")
            return []

    def _make_codex(self) -> list[Made]:
        def go_on(provider_session_id: str, prompts: Sequence[str]) -> None:
            with codex_home.running_codex(self.codex) as codex:
                thread = codex.resume(codex_home.Thread(provider_session_id, Path()))
                for prompt in prompts:
                    codex.run_turn(thread, prompt)

        return [
            Made(
                codex_home.run_thread(self.codex, self.project, _prompts(sample.exchanges), name=sample.title).id,
                sample,
                go_on,
            )
            for sample in samples.CODEX
        ]

    def _make_claude(self, messages: MockMessages) -> list[Made]:
        def go_on(provider_session_id: str, prompts: Sequence[str]) -> None:
            claude_home.run_turns(self.claude, messages.url, prompts, resume=provider_session_id)

        return [
            Made(claude_home.run_turns(self.claude, messages.url, _prompts(sample.exchanges)), sample, go_on)
            for sample in samples.CLAUDE
        ]

    # Forks ----------------------------------------------------------------------------------------------------------

    def _fork_some(self, user: User, made: Sequence[Made]) -> None:
        self.say("Importing them, and forking some ...")
        with working():
            for one in made:
                source = _wait_imported(one.provider_session_id, len(one.sample.exchanges))
                fork = one.sample.fork
                if fork is not None:
                    child = self._fork_one(user, source, fork)
                    one.go_on(child, _prompts(fork.exchanges))
                    _wait_imported(child, fork.through + len(fork.exchanges))

    def _fork_one(self, user: User, source: Session, fork: Fork) -> str:
        turn = history.turn_by_ordinal(source, fork.through)
        if turn is None:
            raise SampleFailed(f"The sample {source} has no turn {fork.through}.")
        request = PrepareRequest(
            workspace_id=source.workspace_id,
            user=user,
            source_session_id=source.pk,
            request_id=f"demo-{source.pk}",
            target_session_id=uuid.uuid4(),
            point=parse_point({"type": "throughTurn", "turnId": str(turn.id)}),
            title=fork.title or None,
        )
        operation_id = prepare(request).operation.pk
        operation = _wait(lambda: Operation.objects.exclude(status__in=OPEN_STATUSES).filter(pk=operation_id).first())
        if operation.status != OperationStatus.COMMITTED:
            raise SampleFailed(f"The sample fork ended as {operation.status}: {operation.error_text}")
        return str(operation.child_provider_session_id)


@contextmanager
def working() -> Iterator[None]:
    """A worker in this process while the block runs."""
    runner = runners.start(workspaces.default_workspace(), runners.default_name())
    stop = StopFlag()
    worker = SessionWorker(runner, stop)
    forks = threading.Thread(target=operations_worker.run, args=(runner, stop), name="forks")
    worker.start()
    forks.start()
    try:
        yield
    finally:
        stop.request()
        worker.join()
        forks.join()
        connections.close_all()


def _wait_imported(provider_session_id: str, turns: int) -> Session:
    return _wait(lambda: _imported(provider_session_id, turns))


def _imported(provider_session_id: str, turns: int) -> Session | None:
    session = (
        Session.objects.select_related("home", "sync")
        .filter(provider_session_id=provider_session_id, sync__state=SyncState.IMPORTED, turn_count__gte=turns)
        .first()
    )
    return session if session is not None and capabilities.session_capability(session).fork else None


def _wait(look: Callable[[], Found | None]) -> Found:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(0.1)
    raise SampleFailed(f"Nothing came of a sample within {WAIT_SECONDS:.0f} seconds.")


def _prompts(exchanges: Sequence[Exchange]) -> list[str]:
    return [exchange.prompt for exchange in exchanges]


def _answers(given: Sequence[Sample]) -> dict[str, str]:
    return {exchange.prompt: exchange.answer for exchange in samples.all_exchanges(given)}


def _cues(given: Sequence[Sample]) -> dict[str, str]:
    return {exchange.prompt: _cue(exchange) for exchange in samples.all_exchanges(given)}


def _cue(exchange: Exchange) -> str:
    shell = f"<shell {exchange.command}>" if exchange.command else ""
    return shell + (f"<think {exchange.thinking}>" if exchange.thinking else "")


def _script(given: Sequence[Sample]) -> dict[str, Reply]:
    return {
        exchange.prompt: Reply(
            exchange.answer,
            tools=(
                [ToolUse("Bash", {"command": exchange.command, "description": "Look at the project"})]
                if exchange.command
                else []
            ),
            thinking=exchange.thinking,
        )
        for exchange in samples.all_exchanges(given)
    }

"""A turn is settled on proof only: the next one began, the agent is idle, or nobody has the session open."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeSDKClient

from forkhost.demo.claude_home import ClaudeHome, options, run_turns
from forkhost.demo.mock_messages import MockMessages, Reply, ToolUse
from sessions.providers.base import DiscoveredSession, HomeRef, SessionRef
from sessions.providers.claude.adapter import ClaudeAdapter
from sessions.providers.claude.registry_files import OwnerState, owners
from tests.claude.support import cursor_of, read, turns_of

SECONDS = 20.0


def until(condition: Callable[[], bool]) -> None:
    """Wait for another process; the interval is only how often to look."""
    pause = threading.Event()
    for _ in range(int(SECONDS / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise TimeoutError("the agent did not get there")


def found(home: ClaudeHome) -> DiscoveredSession:
    """The home's only session that is no lane, once the agent has written it."""
    sessions: list[DiscoveredSession] = []

    def there() -> bool:
        every = ClaudeAdapter().discover(HomeRef("claude", home.config), {})
        sessions.extend(each for each in every if not each.parent_provider_session_id)
        return bool(sessions)

    until(there)
    return sessions[0]


def only_session(home: ClaudeHome) -> SessionRef:
    return found(home).ref


def outcomes(home: ClaudeHome) -> list[str]:
    return [turn.outcome for turn in turns_of(read(only_session(home)))]


@contextmanager
def agent(home: ClaudeHome, mock: MockMessages) -> Iterator[Callable[[str], None]]:
    """A running agent of another process; calling it sends a prompt and does not wait for the answer."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(step: Awaitable[Any]) -> Any:
        async def wrapped() -> Any:
            return await step

        return asyncio.run_coroutine_threadsafe(wrapped(), loop).result(SECONDS)

    client = ClaudeSDKClient(options(home, mock.url))
    run(client.connect())
    try:
        yield lambda prompt: run(client.query(prompt))
    finally:
        run(client.disconnect())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


def state_of(home: ClaudeHome) -> OwnerState | None:
    states = [owner.state for owner in owners(home.config).values()]
    return states[0] if states else None


def test_a_turn_whose_answer_is_still_streaming_is_open_and_settled_once_the_agent_is_idle(
    home: ClaudeHome, mock: MockMessages
) -> None:
    hold = threading.Event()
    mock.script.update({"First.": Reply("One."), "Think hard.": Reply("Two.", hold=hold)})
    with agent(home, mock) as send:
        send("First.")
        mock.wait_for("First.")
        until(lambda: state_of(home) is OwnerState.IDLE)
        send("Think hard.")
        mock.wait_for("Think hard.")
        until(lambda: len(outcomes(home)) == 2)
        running = read(only_session(home))
        assert [turn.outcome for turn in turns_of(running)] == ["completed", ""]
        assert found(home).stamp.endswith(":busy")

        hold.set()
        until(lambda: state_of(home) is OwnerState.IDLE)
        settled = turns_of(read(only_session(home), cursor_of(running)), turns_of(running))
        assert [turn.outcome for turn in settled] == ["completed", "completed"]
        assert settled[1].items == [["prompt", "Think hard."], ["text", "Two."]]
        assert not found(home).stamp.endswith(":busy")
    again = turns_of(read(only_session(home)))
    assert [(turn.turn_id, turn.binding, turn.items) for turn in again] == [
        (turn.turn_id, turn.binding, turn.items) for turn in settled
    ]


def test_a_killed_agent_leaves_an_interrupted_turn_and_the_conversation_goes_on(
    home: ClaudeHome, mock: MockMessages
) -> None:
    mock.script.update(
        {
            "First.": Reply("One."),
            "Never ends.": Reply("a b c", hold=threading.Event(), after_words=1),
            "Again.": Reply("Three."),
        }
    )
    with agent(home, mock) as send:
        send("First.")
        mock.wait_for("First.")
        until(lambda: state_of(home) is OwnerState.IDLE)
        send("Never ends.")
        mock.wait_for("Never ends.")
        until(lambda: len(outcomes(home)) == 2)
        ref = only_session(home)
        running = read(ref)
        assert [turn.outcome for turn in turns_of(running)] == ["completed", ""]
        (entry,) = (home.config / "sessions").glob("*.json")
        os.kill(int(entry.stem), signal.SIGKILL)
        until(lambda: state_of(home) is None)
        assert entry.exists()
    killed = read(ref, cursor_of(running))
    assert [turn.outcome for turn in turns_of(killed, turns_of(running))] == ["completed", "interrupted"]

    run_turns(home, mock.url, ["Again."], resume=ref.provider_session_id)
    later = turns_of(read(ref, cursor_of(killed)))
    assert [(turn.prompt, turn.outcome) for turn in later] == [("Again.", "completed")]


def test_a_background_agent_keeps_the_turn_open_and_its_notice_starts_a_turn_of_its_own(
    home: ClaudeHome, mock: MockMessages
) -> None:
    hold = threading.Event()
    call = ToolUse("Agent", {"description": "look", "prompt": "Look into it.", "subagent_type": "general-purpose"})
    mock.script.update(
        {"Ask a helper.": Reply("It works on it.", tools=[call]), "Look into it.": Reply("Found.", hold=hold)}
    )
    with agent(home, mock) as send:
        send("Ask a helper.")
        mock.wait_for("Look into it.")
        until(lambda: any(turn.items[-1] == ["text", "It works on it."] for turn in turns_of(read(only_session(home)))))
        assert outcomes(home) == [""]
        hold.set()
        until(lambda: len(outcomes(home)) == 2 and state_of(home) is OwnerState.IDLE)
    turns = turns_of(read(only_session(home)))
    assert [(turn.origin, turn.outcome) for turn in turns] == [("user", "completed"), ("auto", "completed")]

    (lane,) = [each for each in ClaudeAdapter().discover(HomeRef("claude", home.config), {}) if each.extra.get("lane")]
    assert lane.parent_provider_session_id == only_session(home).provider_session_id
    assert lane.parent_tool_call_id == next(item[2] for item in turns[0].items if item[0] == "tool_use")
    assert [(turn.prompt, turn.outcome) for turn in turns_of(read(lane.ref))] == [("Look into it.", "completed")]


def test_an_answer_refused_by_the_api_fails_the_turn(home: ClaudeHome, mock: MockMessages) -> None:
    mock.script.update({"Fail.": Reply("no", status=400), "Go on.": Reply("Fine.")})
    run_turns(home, mock.url, ["Fail.", "Go on."])
    turns = turns_of(read(only_session(home)))
    assert [turn.outcome for turn in turns] == ["failed", "completed"]
    assert turns[0].events[-1].payload["status"] == 400


def test_a_command_answered_by_the_harness_stands_after_the_turn(home: ClaudeHome, mock: MockMessages) -> None:
    mock.script.update({"First.": Reply("One."), "Second.": Reply("Two.")})
    run_turns(home, mock.url, ["First.", "/cost", "Second."])
    turns = turns_of(read(only_session(home)))
    assert [turn.outcome for turn in turns] == ["completed", "completed"]
    assert turns[0].late[0] == "/usage"
    assert turns[0].late[1].startswith("Estimated cost")
    rows = Path(str(only_session(home).path)).read_bytes().split(b"\n")
    place = {field: n for n, row in enumerate(rows) for field in [row.split(b'"uuid":"')[-1][:36]]}
    command = next(n for n, row in enumerate(rows) if b"<command-name>" in row)
    assert place[turns[0].checkpoint.encode()] < command

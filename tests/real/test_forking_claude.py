"""A real Claude Code session, from the terminal through REST and the worker to a child that goes on in Claude Code."""

from __future__ import annotations

from pathlib import Path

import pytest

from forkhost.demo import claude_home
from forkhost.demo.mock_messages import Reply, ToolUse
from tests.real.stack import Agents, Stack, digest

pytestmark = pytest.mark.serial

PROMPTS = ["First: remember APPLE", "Second, with a tool", "Third: remember CHERRY"]
REPLIES = {
    PROMPTS[0]: Reply("Noted."),
    PROMPTS[1]: Reply("Done.", tools=[ToolUse("Bash", {"command": "echo hi"})]),
    PROMPTS[2]: Reply("Noted too."),
    "Own": Reply("On my own."),
}


@pytest.fixture(scope="module")
def source_id(agents: Agents) -> str:
    agents.messages.script.update(REPLIES)
    return claude_home.run_turns(agents.claude, agents.messages.url, PROMPTS)


def transcript(agents: Agents, session_id: str) -> Path:
    (path,) = agents.claude.config.glob(f"projects/*/{session_id}.jsonl")
    return path


def go_on(agents: Agents, session_id: str) -> list[str]:
    """Continue a child in the real agent; the prompts its model was shown."""
    claude_home.run_turns(agents.claude, agents.messages.url, ["Own"], resume=session_id)
    context = [call for call in agents.messages.calls if call.main][-1].context
    return [text for role, text in context if role == "user" and not text.startswith("[")]


def test_a_fork_at_an_inner_turn_goes_on_with_exactly_the_prefix(stack: Stack, agents: Agents, source_id: str) -> None:
    path = transcript(agents, source_id)
    before = digest(path)
    source = stack.session_of(source_id, turns=3)
    turn = stack.turns(source["id"])[1]

    operation = stack.fork(source["id"], turn["id"])

    child = operation["session"]
    assert operation["calls"] == 1
    assert [each["prompt"] for each in stack.turns(child["id"])] == PROMPTS[:2]
    assert go_on(agents, child["providerSessionId"]) == [*PROMPTS[:2], "Own"]
    assert digest(path) == before
    stack.session_of(child["providerSessionId"], turns=3)
    assert [each["prompt"] for each in stack.turns(child["id"])] == [*PROMPTS[:2], "Own"]


def test_a_fork_of_a_fork_at_an_inherited_turn_uses_the_childs_own_binding(
    stack: Stack, agents: Agents, source_id: str
) -> None:
    source = stack.session_of(source_id, turns=3)
    child = stack.fork(source["id"], stack.turns(source["id"])[2]["id"])["session"]
    inherited = stack.turns(child["id"])[0]
    assert inherited["inherited"]

    grandchild = stack.fork(child["id"], inherited["id"])["session"]

    assert [each["prompt"] for each in stack.turns(grandchild["id"])] == PROMPTS[:1]
    assert go_on(agents, grandchild["providerSessionId"]) == [PROMPTS[0], "Own"]


def test_three_forks_of_one_source_each_hold_the_whole_prefix(stack: Stack, agents: Agents, source_id: str) -> None:
    path = transcript(agents, source_id)
    before = digest(path)
    source = stack.session_of(source_id, turns=3)
    turn = stack.turns(source["id"])[0]["id"]

    children = [stack.fork(source["id"], turn)["session"] for _ in range(3)]

    assert len({child["providerSessionId"] for child in children}) == 3
    assert len({child["title"] for child in children}) == 3
    for child in children:
        assert go_on(agents, child["providerSessionId"]) == [PROMPTS[0], "Own"]
    assert digest(path) == before


def test_a_rewind_in_the_terminal_leaves_earlier_children_untouched(stack: Stack, agents: Agents) -> None:
    agents.messages.script.update(REPLIES)
    session_id = claude_home.run_turns(agents.claude, agents.messages.url, PROMPTS)
    source = stack.session_of(session_id, turns=3)
    child = stack.fork(source["id"], stack.turns(source["id"])[2]["id"])["session"]
    events = stack.get(stack.in_workspace(f"/agent-sessions/{child['id']}/events"), limit=200)
    first_answer = _last_row_of_first_turn(transcript(agents, session_id))

    claude_home.run_turns(
        agents.claude, agents.messages.url, ["Own"], resume=session_id, resume_session_at=first_answer
    )

    rewound = stack.get(stack.in_workspace(f"/agent-sessions/{source['id']}"))["historyRevision"]
    for _ in range(200):
        if [turn["prompt"] for turn in stack.turns(source["id"])] == [PROMPTS[0], "Own"]:
            break
        rewound = stack.get(stack.in_workspace(f"/agent-sessions/{source['id']}"))["historyRevision"]
    assert [turn["prompt"] for turn in stack.turns(source["id"])] == [PROMPTS[0], "Own"], rewound
    assert stack.get(stack.in_workspace(f"/agent-sessions/{child['id']}/events"), limit=200) == events


def _last_row_of_first_turn(path: Path) -> str:
    import json

    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    answers = [row["uuid"] for row in rows if row["type"] == "assistant"]
    return str(answers[0])

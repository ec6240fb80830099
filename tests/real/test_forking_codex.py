"""A real Codex thread, from the terminal through REST and the worker to a child that goes on in Codex."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from forkhost.demo.codex_home import Codex, Thread, running_codex
from tests.real.stack import Agents, Stack, digest, eventually

pytestmark = pytest.mark.serial

PROMPTS = ["First: remember APPLE", "Second <shell echo hi>", "Third: remember CHERRY"]


@pytest.fixture(scope="module")
def codex(agents: Agents) -> Iterator[Codex]:
    with running_codex(agents.codex) as running:
        yield running


@pytest.fixture(scope="module")
def thread(codex: Codex, agents: Agents) -> Thread:
    made = codex.start(agents.project)
    for prompt in PROMPTS:
        codex.run_turn(made, prompt)
    return made


def go_on(agents: Agents, thread_id: str, prompt: str) -> list[str]:
    """Continue a child in a Codex of its own; the prompts its model was shown."""
    with running_codex(agents.codex) as codex:
        child = codex.resume(Thread(thread_id, agents.codex))
        codex.run_turn(child, prompt)
    return agents.responses.requests[-1].prompts


def test_a_fork_at_an_inner_turn_goes_on_with_exactly_the_prefix(stack: Stack, agents: Agents, thread: Thread) -> None:
    before = digest(thread.path)
    source = stack.session_of(thread.id, turns=3)
    turn = stack.turns(source["id"])[1]

    operation = stack.fork(source["id"], turn["id"])

    child = operation["session"]
    assert operation["calls"] == 1
    assert operation["lineage"]["sourceTurnId"] == turn["id"]
    assert [each["prompt"] for each in stack.turns(child["id"])] == PROMPTS[:2]
    assert go_on(agents, child["providerSessionId"], "Own: PLUM") == [*PROMPTS[:2], "Own: PLUM"]
    assert digest(thread.path) == before
    stack.session_of(child["providerSessionId"], turns=3)
    assert stack.turns(child["id"])[-1]["prompt"] == "Own: PLUM"


def test_a_fork_of_a_fork_at_an_inherited_turn_uses_the_childs_own_binding(
    stack: Stack, agents: Agents, thread: Thread
) -> None:
    source = stack.session_of(thread.id, turns=3)
    child = stack.fork(source["id"], stack.turns(source["id"])[2]["id"])["session"]
    inherited = stack.turns(child["id"])[0]
    assert inherited["inherited"]
    assert inherited["id"] != stack.turns(source["id"])[0]["id"]

    grandchild = stack.fork(child["id"], inherited["id"])["session"]

    assert len(agents.codex_children(child["providerSessionId"])) == 1
    assert go_on(agents, grandchild["providerSessionId"], "Own: FIG") == [PROMPTS[0], "Own: FIG"]


def test_three_forks_of_one_source_have_three_children_and_three_titles(
    stack: Stack, agents: Agents, codex: Codex
) -> None:
    made = codex.start(agents.project)
    for prompt in PROMPTS[:2]:
        codex.run_turn(made, prompt)
    before = digest(made.path)
    source = stack.session_of(made.id, turns=2)
    turn = stack.turns(source["id"])[0]["id"]

    children = [stack.fork(source["id"], turn)["session"] for _ in range(3)]

    assert len({child["providerSessionId"] for child in children}) == 3
    assert len({child["title"] for child in children}) == 3
    assert [len(stack.turns(child["id"])) for child in children] == [1, 1, 1]
    assert len(agents.codex_children(made.id)) == 3
    assert digest(made.path) == before


def test_twenty_identical_requests_at_once_are_one_operation_and_one_call(
    stack: Stack, agents: Agents, codex: Codex
) -> None:
    made = codex.start(agents.project)
    codex.run_turn(made, "Only turn")
    source = stack.session_of(made.id, turns=1)
    body = stack.fork_body(stack.turns(source["id"])[0]["id"])
    together = threading.Barrier(20)

    def ask(_: int) -> httpx.Response:
        together.wait()
        return stack.ask_for_fork(source["id"], body)

    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(ask, range(20)))

    assert {reply.status_code for reply in replies} <= {200, 202}, [reply.text for reply in replies]
    (operation_id,) = {reply.json()["operationId"] for reply in replies}
    operation = stack.settled(operation_id)
    assert (operation["status"], operation["calls"]) == ("committed", 1)
    assert len(agents.codex_children(made.id)) == 1
    again = [stack.ask_for_fork(source["id"], body) for _ in range(2)]
    assert [reply.json() for reply in again] == [operation, operation]
    assert again[0].headers["Idempotency-Replayed"] == "true"


def test_a_turn_that_runs_in_a_terminal_is_open_cannot_be_forked_and_is_right_once_it_ends(
    stack: Stack, agents: Agents, codex: Codex
) -> None:
    made = codex.start(agents.project)
    codex.run_turn(made, "Settled")
    held = codex.begin_turn(made, "Running <hold>")
    session = stack.session_of(made.id, turns=1)
    # Its first lines may be shown before the rest is read; nothing can be forked until then, and another reason is told.
    running = eventually(
        lambda: next(
            (
                turn
                for turn in stack.turns(session["id"])
                if turn["phase"] == "open" and turn["reason"] != "history_not_imported"
            ),
            None,
        ),
        what="the open turn, read to its end",
    )
    assert not running["forkable"]
    assert running["reason"] == "turn_not_settled"
    refused = stack.ask_for_fork(session["id"], stack.fork_body(running["id"]))
    assert 400 <= refused.status_code < 500, refused.text
    inner = stack.fork(session["id"], stack.turns(session["id"])[0]["id"])["session"]
    assert len(stack.turns(inner["id"])) == 1

    agents.responses.release()
    codex.wait("turn/completed", held)
    ended = time.monotonic()
    stack.session_of(made.id, turns=2, seconds=10)

    assert time.monotonic() - ended < 3
    assert stack.turns(session["id"])[-1]["outcome"] == "completed"
    assert stack.turns(session["id"])[-1]["id"] == running["id"]

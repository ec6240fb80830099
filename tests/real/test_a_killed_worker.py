"""What people see when a worker dies, or an answer is lost, in the middle of a real fork."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from forkhost.demo.codex_home import run_thread
from sessions.providers.codex.executable import OVERRIDE
from sessions.providers.crashpoints import VARIABLE, CrashPoint
from tests.codex.troublemaker import Trouble, make_troublemaker
from tests.real.stack import Agents, Stack, eventually, running

pytestmark = pytest.mark.serial

LEASE_SECONDS = 8.0
LEASE_AND_MORE = 60.0


def test_killed_after_the_mark_is_unknown_after_the_restart_and_never_sent_again(
    agents: Agents, tmp_path: Path
) -> None:
    thread = run_thread(agents.codex, agents.project, ["Only turn"])
    crash = {VARIABLE: CrashPoint.AFTER_DISPATCH_MARK, "FORKHOST_LEASE_SECONDS": str(LEASE_SECONDS)}
    with running(tmp_path, agents, **crash) as stack:
        source = stack.session_of(thread.id, turns=1)
        body = stack.fork_body(stack.turns(source["id"])[0]["id"])

        operation_id = stack.ask_for_fork(source["id"], body).json()["operationId"]
        eventually(lambda: f'"code": -{signal.SIGKILL.value}' in stack.log.read_text(), what="the worker's end")
        operation = stack.settled(operation_id, seconds=LEASE_AND_MORE)

        assert (operation["status"], operation["calls"]) == ("unknown", 1)
        assert agents.codex_children(thread.id) == []
        assert_unknown_and_never_sent_again(stack, source["id"], body, operation)


def test_a_lost_answer_is_amber_and_worded_without_a_button_that_sends_again(agents: Agents, tmp_path: Path) -> None:
    thread = run_thread(agents.codex, agents.project, ["Only turn"])
    codex = make_troublemaker(tmp_path / "bin", Trouble.DIES_WITH_THE_ANSWER)
    with running(tmp_path, agents, **{OVERRIDE: str(codex)}) as stack:
        source = stack.session_of(thread.id, turns=1)
        body = stack.fork_body(stack.turns(source["id"])[0]["id"])

        operation_id = stack.ask_for_fork(source["id"], body).json()["operationId"]
        operation = stack.settled(operation_id)

        assert (operation["status"], operation["calls"]) == ("unknown", 1)
        assert len(agents.codex_children(thread.id)) == 1
        assert_unknown_and_never_sent_again(stack, source["id"], body, operation)


def assert_unknown_and_never_sent_again(
    stack: Stack, source_id: str, body: dict[str, Any], operation: dict[str, Any]
) -> None:
    """The replay is the same operation, and its page has words and nothing to press that would send."""
    assert stack.ask_for_fork(source_id, body).json() == operation
    page = _page(stack, operation["operationId"])
    assert "Outcome unknown" in page
    assert "unharmed" in page
    assert "retry" not in page.lower()
    assert "try again" not in page.lower()


def _page(stack: Stack, operation_id: str) -> str:
    with httpx.Client(follow_redirects=True) as browser:
        form = browser.get(stack.sign_in_link)
        token = form.text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
        browser.post(
            stack.sign_in_link, data={"csrfmiddlewaretoken": token}, headers={"Referer": stack.base_url}
        ).raise_for_status()
        return browser.get(f"{stack.base_url}/forks/{operation_id}/").raise_for_status().text

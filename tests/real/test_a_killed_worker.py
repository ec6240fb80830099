"""What people see when a worker dies, or an answer is lost, in the middle of a real fork."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest

from forkhost.demo.codex_home import run_thread
from sessions.providers.codex.executable import OVERRIDE
from sessions.providers.crashpoints import VARIABLE, CrashPoint
from tests.codex.troublemaker import Trouble, make_troublemaker
from tests.real.stack import Agents, Stack, eventually, running

pytestmark = pytest.mark.serial

LEASE_AND_MORE = 90.0


def test_killed_after_the_mark_is_unknown_then_settled_by_evidence_and_never_sent_again(
    agents: Agents, tmp_path: Path
) -> None:
    thread = run_thread(agents.codex, agents.project, ["Only turn"])
    with running(tmp_path, agents, **{VARIABLE: CrashPoint.AFTER_DISPATCH_MARK}) as stack:
        source = stack.session_of(thread.id, turns=1)
        body = stack.fork_body(stack.turns(source["id"])[0]["id"])

        operation_id = stack.ask_for_fork(source["id"], body).json()["operationId"]
        eventually(lambda: f'"code": -{signal.SIGKILL.value}' in stack.log.read_text(), what="the worker's end")
        assert stack.operation(operation_id)["status"] == "accepted"

        seen = stack.settled(operation_id, seconds=LEASE_AND_MORE)
        assert seen["calls"] == 1
        settled = eventually(lambda: _failed(stack, operation_id), seconds=30, what="the settlement by evidence")
        assert settled["error"]["code"] == "proven_not_created"
        assert settled["unknownSinceUnixMs"] is None
        assert settled["calls"] == 1
        assert stack.ask_for_fork(source["id"], body).json() == settled
        assert agents.codex_children(thread.id) == []


def test_a_lost_answer_is_amber_and_worded_without_a_button_that_sends_again(agents: Agents, tmp_path: Path) -> None:
    thread = run_thread(agents.codex, agents.project, ["Only turn"])
    codex = make_troublemaker(tmp_path / "bin", Trouble.DIES_WITH_THE_ANSWER)
    with running(tmp_path, agents, **{OVERRIDE: str(codex)}) as stack:
        source = stack.session_of(thread.id, turns=1)
        body = stack.fork_body(stack.turns(source["id"])[0]["id"])

        operation_id = stack.ask_for_fork(source["id"], body).json()["operationId"]
        operation = stack.settled(operation_id)

        assert (operation["status"], operation["calls"]) == ("unknown", 1)
        assert stack.ask_for_fork(source["id"], body).json() == operation
        assert len(agents.codex_children(thread.id)) == 1
        page = _page(stack, operation_id)
        assert "Outcome unknown" in page
        assert "unharmed" in page
        assert "retry" not in page.lower()
        assert "try again" not in page.lower()


def _failed(stack: Stack, operation_id: str) -> dict[str, object] | None:
    operation = stack.operation(operation_id)
    return operation if operation["status"] == "failed" else None


def _page(stack: Stack, operation_id: str) -> str:
    with httpx.Client(follow_redirects=True) as browser:
        form = browser.get(stack.sign_in_link)
        token = form.text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
        browser.post(
            stack.sign_in_link, data={"csrfmiddlewaretoken": token}, headers={"Referer": stack.base_url}
        ).raise_for_status()
        return browser.get(f"{stack.base_url}/forks/{operation_id}/").raise_for_status().text

"""Only an SDK whose very code was proven may fork, and every refusal has a sentence."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sessions.providers.base import Adapter, Attestation, HomeRef, PointSupport, SessionFacts, SessionRef, TurnBinding
from sessions.providers.claude import attestation, registry_files, sdk
from sessions.providers.claude.adapter import ClaudeAdapter
from sessions.providers.claude.registry_files import OwnerState
from tests.claude.support import at_work

FACTS = SessionFacts("s", "2.1.332", "/home/dev/project", damaged=False)
BOUND = TurnBinding("prompt", {"checkpoint": "row"})


@pytest.fixture(autouse=True)
def _forget_what_was_proven() -> Iterator[None]:
    attestation._proven.clear()
    yield
    attestation._proven.clear()


@pytest.fixture
def home(config: Path) -> HomeRef:
    return HomeRef("claude", config)


def answering(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let the fork process report other facts than it would."""
    real = attestation._ask

    def ask(process: attestation.Runtime) -> Any:
        facts = real(process)
        assert isinstance(facts, dict)
        return {**facts, **changes}

    monkeypatch.setattr(attestation, "_ask", ask)


def test_the_installed_sdk_is_proven(home: HomeRef, adapter: ClaudeAdapter) -> None:
    contract: Adapter = adapter
    proof = contract.attest(home)
    assert (proof.points, proof.reason, proof.detail) == (PointSupport.ANY_TURN, "", "")
    assert proof.driver_version == "0.2.189"
    assert Path(proof.executable).name == "session_mutations.py"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"digest": "0" * 64}, "claude_sdk_unproven"),
        ({"signature": ["session_id"]}, "claude_sdk_changed"),
        ({"selfTest": "the title row is not the last one"}, "claude_self_test_failed"),
    ],
)
def test_anything_unproven_forks_nothing(
    home: HomeRef, adapter: ClaudeAdapter, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    answering(monkeypatch, **changes)
    proof = adapter.attest(home)
    assert (proof.points, proof.reason, proof.fingerprint) == (PointSupport.UNSUPPORTED, reason, "")
    assert proof.detail
    assert adapter.can_fork(proof, FACTS, BOUND) == reason


def test_without_the_sdk_sessions_can_be_read_only(
    home: HomeRef, adapter: ClaudeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "PACKAGE", "no_such_sdk_anywhere")
    assert adapter.attest(home).reason == "claude_sdk_missing"
    with pytest.raises(sdk.SdkMissing):
        sdk.load()


def test_a_process_that_cannot_be_asked_is_no_proof(
    home: HomeRef, adapter: ClaudeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = attestation.runtime
    monkeypatch.setattr(attestation, "runtime", lambda where: replace(real(where), argv=("/bin/true",)))
    assert adapter.attest(home).reason == "claude_sdk_silent"


def test_a_home_that_is_gone_is_said(home: HomeRef, adapter: ClaudeAdapter) -> None:
    assert adapter.attest(replace(home, path=home.path / "gone")).reason == "home_missing"


def test_the_fingerprint_changes_with_the_home_and_the_sdk(
    home: HomeRef, adapter: ClaudeAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = adapter.attest(home).fingerprint
    assert first == adapter.attest(home).fingerprint
    assert first != adapter.attest(HomeRef("claude", tmp_path)).fingerprint
    attestation._proven.clear()
    answering(monkeypatch, version="0.2.143")
    assert first != adapter.attest(home).fingerprint


class _Sdk(ModuleType):
    """A stand-in for another version of the SDK, with one thing wrong."""

    def __init__(self, wrong: str) -> None:
        super().__init__("other")
        self.wrong = wrong

    async def fork_session_via_store(
        self, store: Any, session_id: str, directory: Any, up_to_message_id: str, title: str
    ) -> Any:
        rows = await store.load({"session_id": session_id})
        if self.wrong != "whole":
            rows = rows[:2]
        origin = "x" if self.wrong == "origin" else session_id
        names = [row["uuid"] if self.wrong == "names" else f"new-{n}" for n, row in enumerate(rows)]
        entries = [
            {
                "uuid": names[n],
                "parentUuid": names[n - 1] if n else None,
                "forkedFrom": {"sessionId": origin, "messageUuid": row["uuid"]},
            }
            for n, row in enumerate(rows)
        ]
        if self.wrong != "title":
            entries.append({"type": "custom-title", "customTitle": title, "uuid": "t"})
        if self.wrong == "raises":
            raise TypeError("another signature")
        child = session_id if self.wrong == "source" else "child"
        await store.append({"session_id": child}, entries)
        return type("Result", (), {"session_id": child})()


@pytest.mark.parametrize("wrong", ["", "whole", "origin", "names", "title", "raises", "source"])
def test_the_self_test_finds_a_fork_that_is_wrong(wrong: str) -> None:
    assert bool(sdk._self_test(_Sdk(wrong))) is bool(wrong)


def test_a_fork_without_a_row_to_cut_at_is_refused_before_the_sdk_takes_it_as_no_cut() -> None:
    with pytest.raises(ValueError, match="cut at"):
        sdk.fork(_Sdk(""), None, "s", "", "t")


# --------------------------------------------------------------------------------------------------------------------


def attested(points: PointSupport = PointSupport.ANY_TURN, reason: str = "") -> Attestation:
    proof = attestation._unsupported(reason, "")
    return replace(proof, points=points)


def test_each_reason_for_no_fork_has_a_code_and_a_sentence(adapter: ClaudeAdapter) -> None:
    fine = attested()
    lane = replace(FACTS, extra={"lane": True})
    asked = {
        "not_attested": adapter.can_fork(None, FACTS, BOUND),
        "claude_sdk_missing": adapter.can_fork(attested(PointSupport.UNSUPPORTED, "claude_sdk_missing"), FACTS, BOUND),
        "sub_agent_lane": adapter.can_fork(fine, lane, BOUND),
        "turn_not_bound": adapter.can_fork(fine, FACTS, TurnBinding("", {})),
        "transcript_damaged": adapter.can_fork(fine, FACTS, replace(BOUND, data={"checkpoint": "r", "broken": True})),
        "": adapter.can_fork(fine, FACTS, BOUND),
    }
    assert {code: code for code in asked} == asked
    assert adapter.can_fork(fine, FACTS, None) == ""
    assert adapter.can_fork(fine, FACTS, TurnBinding("p", {}, reason="imported_unbound")) == "imported_unbound"
    sentences = [adapter.explain(code) for code in asked if code]
    assert all(sentence.endswith(".") for sentence in sentences)
    assert adapter.explain("something_else") == "something_else"


def test_the_command_to_go_on_is_safe_to_paste(adapter: ClaudeAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/dev")
    usual, other = HomeRef("claude", Path("/home/dev/.claude")), HomeRef("claude", Path("/srv/it's here"))
    assert (
        adapter.resume_command(SessionRef(usual, "abc", None, "/home/dev/project"))
        == "cd /home/dev/project && claude --resume abc"
    )
    odd = adapter.resume_command(SessionRef(other, "a;b", None, "/tmp/$(x) y"))
    assert shlex.split(odd) == [
        "cd",
        "/tmp/$(x) y",
        "&&",
        "CLAUDE_CONFIG_DIR=/srv/it's here",
        "claude",
        "--resume",
        "a;b",
    ]
    assert adapter.resume_command(SessionRef(usual, "abc/agent-1", None, "/home/dev/project")) == ""


# --------------------------------------------------------------------------------------------------------------------


def states(config: Path) -> dict[str, OwnerState]:
    return {identity: owner.state for identity, owner in registry_files.owners(config).items()}


def test_a_registered_process_counts_only_while_it_is_the_same_process(config: Path) -> None:
    at_work(config, "s", "busy")
    assert states(config) == {"s": OwnerState.BUSY}
    at_work(config, "s", "idle")
    assert states(config) == {"s": OwnerState.IDLE}
    at_work(config, "s", "something new")
    assert states(config) == {"s": OwnerState.BUSY}
    at_work(config, "s", "busy", procStart="1")
    assert states(config) == {}


def test_a_process_of_another_pid_namespace_cannot_be_declared_dead(config: Path) -> None:
    registered = at_work(config, "s", "busy", pid=999_999_999, pidDomain="linux:x:pid:[1]")
    assert states(config) == {"s": OwnerState.BUSY}
    registered.unlink()
    at_work(config, "s", "busy", pid=999_999_999)
    assert states(config) == {}


def test_files_that_are_no_registrations_are_passed_over(config: Path) -> None:
    folder = config / "sessions"
    folder.mkdir()
    for name, content in (("1.json", "{"), ("2.json", "[]"), ("3.json", json.dumps({"pid": "x", "sessionId": "s"}))):
        (folder / name).write_text(content)
    assert states(config) == {}
    assert states(config / "gone") == {}
    assert registry_files.process_started_at(999_999_999) is None

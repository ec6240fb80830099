"""An agent made for tests: it counts its calls, does what a script says, and keeps everything in its home's folder, so
that several processes share one.

    calls/<n>.json     one file a native call, in order; the counter of calls
    children/<id>.json one file a child made
    gates/<name>       where a call waits until the test lets it go on
    config.json        how the agent behaves; see ``DEFAULTS``
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from pathlib import Path
from typing import Any, ClassVar

from forkhost.kit import processes
from sessions.providers.agentless import AgentlessAdapter
from sessions.providers.base import (
    Attestation,
    BindingMode,
    Candidate,
    ChildSearch,
    ForkAccepted,
    ForkReporter,
    ForkRequest,
    HomeRef,
    IdentityMode,
    Json,
    MatchStrength,
    NotStarted,
    PointSupport,
    ProcessIdentity,
    Rejected,
    SessionFacts,
    SessionRef,
    TurnBinding,
    TurnMapping,
    Unknown,
    Unreadable,
)
from sessions.providers.crashpoints import CrashPoint, crash_point

PROVIDER = "fake"

DEFAULTS: dict[str, Any] = {
    "version": "1",
    "points": "any-turn",
    "binding_mode": "host_copy",
    "identity_mode": "marker",
    "kept": True,
    "confirm": "",
    "bind": "",
    "absence_proves": True,
    "longest": 60.0,
    # "self": the process that calls adapter.fork; "dead": one that is gone; "none": never reported.
    "process": "self",
    # One step a call, counted from the first call ever; calls beyond it are accepted.
    "script": [],
}

DEAD = ProcessIdentity(pid=4242, started_at="1", boot_id="a boot long ago")


class FakeProvider:
    """The test's side: sets the agent up, and sees what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("calls", "children", "gates"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not (folder / "config.json").exists():
            self.configure()

    def configure(self, **changes: Any) -> None:
        """Change how the agent behaves."""
        path = self.folder / "config.json"
        config = {**DEFAULTS, **(json.loads(path.read_text()) if path.exists() else {}), **changes}
        temporary = path.with_suffix(f".{uuid.uuid4().hex}")
        temporary.write_text(json.dumps(config))
        os.replace(temporary, path)

    def script(self, *steps: str | dict[str, Any]) -> None:
        """What the next calls do; those after them are accepted."""
        before = [{"do": "accept"}] * len(self.calls)
        self.configure(script=[*before, *({"do": step} if isinstance(step, str) else step for step in steps)])

    @property
    def config(self) -> dict[str, Any]:
        """How it behaves now."""
        loaded: dict[str, Any] = json.loads((self.folder / "config.json").read_text())
        return loaded

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The native calls, in order."""
        names = sorted((self.folder / "calls").glob("*.json"), key=lambda path: int(path.stem))
        return [json.loads(path.read_text()) for path in names]

    @property
    def children(self) -> list[dict[str, Any]]:
        """The children that exist."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "children").glob("*.json"))]

    def add_child(self, **facts: Any) -> str:
        """Put a child there, as the agent would have."""
        child = {"id": f"child-{uuid.uuid4()}", "complete": True, "createdAt": time.time_ns() // 1_000_000, **facts}
        path = self.folder / "children" / f"{child['id']}.json"
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(child))
        os.replace(temporary, path)
        return str(child["id"])

    def wait_for(self, gate: str, timeout: float = 20) -> None:
        """Wait until a call stands at the gate."""
        _wait(self.folder / "gates" / f"{gate}.reached", timeout)

    def open(self, gate: str) -> None:
        """Let the call at the gate go on."""
        (self.folder / "gates" / f"{gate}.open").touch()


def _wait(path: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody made {path.name} within {timeout} s")
        time.sleep(0.005)


class FakeAdapter(AgentlessAdapter):
    """The agent's side, as forkhost sees it. It has children and no transcripts to read."""

    provider: ClassVar[str] = PROVIDER
    label: ClassVar[str] = "Fake"

    def attest(self, home: HomeRef) -> Attestation:
        config = FakeProvider(home.path).config
        return Attestation(
            driver_kind=PROVIDER,
            driver_version=config["version"],
            fingerprint=f"fake/{config['version']}",
            points=PointSupport(config["points"]),
            whole_session=True,
            binding_mode=BindingMode(config["binding_mode"]),
            identity_mode=IdentityMode(config["identity_mode"]),
            longest_fork_seconds=config["longest"],
            reason="" if config["points"] != "unsupported" else "too_old",
            detail="" if config["points"] != "unsupported" else "This version cannot fork.",
        )

    def present(self, home: HomeRef) -> set[str]:
        return {child["id"] for child in FakeProvider(home.path).children}

    def can_fork(self, attestation: Attestation | None, facts: SessionFacts, binding: TurnBinding | None) -> str:
        if attestation is None or attestation.points is PointSupport.UNSUPPORTED:
            return "too_old"
        return binding.data.get("refuse", "") if binding is not None else ""

    def explain(self, reason: str) -> str:
        return f"The fake agent says {reason}."

    def confirm_turn(self, request: ForkRequest) -> None:
        said = FakeProvider(request.source.home.path).config["confirm"]
        if said == "explode":
            raise RuntimeError("the source cannot be looked at")
        if said:
            raise Rejected(said, "The turn is not there.")

    def fork(self, request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
        agent = FakeProvider(request.source.home.path)
        config = agent.config
        if config["process"] == "self":
            own = processes.identify()
            reporter.process_started(ProcessIdentity(own.pid, own.started_at, own.boot_id))
        elif config["process"] == "dead":
            reporter.process_started(DEAD)
        number = _record_call(agent, request)
        script = config["script"]
        step: dict[str, Any] = script[number] if number < len(script) else {"do": "accept"}
        return _carry_out(agent, request, reporter, step)

    def verify(self, request: ForkRequest, child_provider_session_id: str) -> ForkAccepted:
        agent = FakeProvider(request.source.home.path)
        for child in agent.children:
            if child["id"] == child_provider_session_id:
                if not child["complete"] or child["turn"] != request.turn.binding.provider_turn_id:
                    raise Rejected("wrong_child", "The child does not end at the chosen turn.")
                return _accepted(agent, request, child["id"])
        raise Unreadable("child_missing", "There is no such child.")

    def find_children(self, request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
        agent = FakeProvider(request.source.home.path)
        if agent.config["confirm"] == "away":
            raise Unreadable("home_missing", "The home is not there.")
        candidates = []
        for child in agent.children:
            if child["source"] != request.source.provider_session_id:
                continue
            exact = child.get("marker") == request.marker or (announced_id and child["id"] == announced_id)
            strength = MatchStrength.EXACT if exact else MatchStrength.LIKELY
            if not exact and (child.get("marker") or not _may_be(request, child, since_ms)):
                continue
            path = agent.folder / "children" / f"{child['id']}.json"
            torn = exact and not child["complete"]
            facts = _comparison(request, child, since_ms)
            candidates.append(
                Candidate(child["id"], strength, child["complete"], child["createdAt"], path, facts, torn)
            )
        return ChildSearch("folder", candidates, absence_proves=agent.config["absence_proves"])

    def remove_torn(self, request: ForkRequest, candidate: Candidate) -> Json:
        agent = FakeProvider(request.source.home.path)
        path = agent.folder / "children" / f"{candidate.provider_session_id}.json"
        child = json.loads(path.read_text())
        if child["complete"] or child.get("marker") != request.marker:
            raise Rejected("not_torn", "It is not a torn child of this fork.")
        content = path.read_bytes()
        path.unlink()
        digest = hashlib.sha256(content).hexdigest()
        return {"childProviderSessionId": child["id"], "path": str(path), "bytes": len(content), "sha256": digest}

    def bind(self, request: ForkRequest, accepted: ForkAccepted, target: HomeRef) -> Json:
        agent = FakeProvider(target.path)
        if agent.config["bind"]:
            raise Unreadable(agent.config["bind"], "The child cannot be made readable.")
        return {"home": str(target.path)}

    def resume_command(self, ref: SessionRef) -> str:
        return f"fake resume {ref.provider_session_id}"


def _comparison(request: ForkRequest, child: dict[str, Any], since_ms: int) -> Json:
    """What a search without ids or marks goes by: the parent, the time, the cut and the content."""
    return {
        "parent": child["source"] == request.source.provider_session_id,
        "inWindow": child["createdAt"] >= since_ms,
        "cut": child["turn"] == request.turn.binding.provider_turn_id,
        "content": child.get("content", "") in ("", "source"),
    }


def _may_be(request: ForkRequest, child: dict[str, Any], since_ms: int) -> bool:
    return all(_comparison(request, child, since_ms).values())


def _record_call(agent: FakeProvider, request: ForkRequest) -> int:
    facts = {
        "operation": request.operation_id,
        "source": request.source.provider_session_id,
        "turn": request.turn.binding.provider_turn_id,
        "title": request.title,
        "pid": os.getpid(),
        "prefix": [binding.provider_turn_id for binding in request.prefix] if request.require_prefix else None,
    }
    # Whole or not there: the process may be killed in the middle of this.
    written = agent.folder / f"call-{uuid.uuid4().hex}"
    written.write_text(json.dumps(facts))
    number = 0
    while True:
        try:
            os.link(written, agent.folder / "calls" / f"{number}.json")
        except FileExistsError:
            number += 1
        else:
            written.unlink()
            return number


def _carry_out(agent: FakeProvider, request: ForkRequest, reporter: ForkReporter, step: dict[str, Any]) -> ForkAccepted:
    child_id = step.get("child") or f"child-{uuid.uuid4()}"
    if step.get("announce"):
        reporter.announce(child_id)
    _stand_at(agent, step.get("gate"))
    crash_point(CrashPoint.DURING_CALL)
    do = step["do"]
    if do == "not_started":
        raise NotStarted("runtime_missing", "The agent could not be started.")
    if do == "reject":
        raise Rejected("turn_gone", "The agent does not know this turn.")
    if do == "lose":
        raise Unknown("no_answer", "The agent did not answer.")
    if do == "explode":
        raise RuntimeError("a mistake in the adapter")
    agent.add_child(
        id=child_id,
        source=request.source.provider_session_id,
        turn=request.turn.binding.provider_turn_id,
        operation=request.operation_id,
        marker=request.marker if agent.config["identity_mode"] == "marker" else "",
        complete=do != "torn",
    )
    crash_point(CrashPoint.AFTER_CHILD_MADE)
    _stand_at(agent, step.get("gate_after"))
    if do == "lose_answer":
        raise Unknown("no_answer", "The agent did not answer.")
    if do == "torn":
        raise Unknown("wrong_child", "The child ends too early.", child_provider_session_id=child_id)
    if do == "half":
        return ForkAccepted(child_id, [], True, {"childProviderSessionId": child_id}, None)
    return _accepted(agent, request, child_id)


def _stand_at(agent: FakeProvider, gate: str | None) -> None:
    if gate:
        (agent.folder / "gates" / f"{gate}.reached").touch()
        _wait(agent.folder / "gates" / f"{gate}.open", 30)


def _accepted(agent: FakeProvider, request: ForkRequest, child_id: str) -> ForkAccepted:
    kept = agent.config["kept"]
    turns = [request.turn.binding] if kept else list(request.prefix)
    mapping = [
        TurnMapping(turn.provider_turn_id, turn if kept else TurnBinding(f"{child_id}/{turn.provider_turn_id}"))
        for turn in turns
    ]
    receipt = {"childProviderSessionId": child_id, "path": "", "verified": ["exists", "ends at the turn"]}
    return ForkAccepted(child_id, mapping, kept, receipt, None)

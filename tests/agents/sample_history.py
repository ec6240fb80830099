"""Sessions to look at: a conversation with everything a transcript can hold, made through the store.

No agent runs. ``sample`` fills a workspace as an import would have done; tests take from it what they need.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sessions import runners, store
from sessions.choices import EventKind, SyncState, TurnOutcome
from sessions.models import Home, Runner, Session, SessionSync, Workspace
from sessions.providers.base import Attestation, BindingMode, IdentityMode, PointSupport, TurnBinding
from sessions.store import Entry, NewEvent, TurnEnd, TurnStart

NOON = 1_764_590_400_000
SECOND = 1000

ATTESTATION = Attestation(
    driver_kind="app-server",
    driver_version="0.163.0",
    fingerprint="sample",
    points=PointSupport.ANY_TURN,
    whole_session=True,
    binding_mode=BindingMode.PROVIDER_OWNED,
    identity_mode=IdentityMode.MARKER,
    longest_fork_seconds=30.0,
    executable="/usr/bin/codex",
)

ANSWER = """The test fails because two workers write to **the same** temporary folder.

## What happens

1. `setup_module` makes `build/cache`
2. a second worker removes it while the first still reads

```python
@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    \"\"\"A cache of its own for every test.\"\"\"
    with Cache(tmp_path / "cache") as cache:
        yield cache
```

| worker | writes | removes |
|---|---|---|
| gw0 | yes | no |
| gw1 | yes | yes |

See [the fixture's documentation](https://docs.pytest.org/en/stable/how-to/tmp_path.html). I will change it.
"""

OUTPUT = "\n".join(f"tests/test_import.py::test_row_{n} PASSED [{n:3d}%]" for n in range(1, 120))


@dataclass
class Talk:
    """Writes turns into one session, a few seconds apart."""

    session: Session
    times: Iterator[int] = field(default_factory=lambda: itertools.count(NOON, 7 * SECOND))

    def say(
        self,
        prompt: str,
        *events: tuple[EventKind, dict[str, Any]],
        outcome: TurnOutcome | None = TurnOutcome.COMPLETED,
        bound: bool = True,
        reason: str = "turn_id_synthesized",
    ) -> None:
        """One turn: the prompt, then ``events``; ``outcome`` None leaves it open."""
        binding = TurnBinding(f"turn_{uuid.uuid4().hex[:12]}") if bound else TurnBinding("", reason=reason)
        entries: list[Entry] = [
            TurnStart(next(self.times), prompt=prompt, binding=binding, model=self.session.model),
            NewEvent(EventKind.MESSAGE_USER, next(self.times), {"text": prompt}),
            *(NewEvent(kind, next(self.times), payload) for kind, payload in events),
        ]
        if outcome is not None:
            entries.append(TurnEnd(next(self.times), outcome))
        store.append(self.session.pk, entries)

    def note(self, kind: EventKind, text: str) -> None:
        """A record between two turns."""
        store.append(self.session.pk, [NewEvent(kind, next(self.times), {"text": text})])


def answer(text: str) -> tuple[EventKind, dict[str, Any]]:
    """The agent's words."""
    return EventKind.MESSAGE_ASSISTANT, {"text": text}


def tool(name: str, given: dict[str, Any], output: str, **facts: Any) -> list[tuple[EventKind, dict[str, Any]]]:
    """A tool's call and its result."""
    call = uuid.uuid4().hex[:8]
    return [
        (EventKind.TOOL_CALL, {"callId": call, "name": name, "input": given}),
        (EventKind.TOOL_RESULT, {"callId": call, "output": output, "isError": False, **facts}),
    ]


def home_of(workspace: Workspace, name: str = "desk", provider: str = "codex", **changes: Any) -> Home:
    """A home on a runner whose worker was just seen, with a stored attestation."""
    from dataclasses import replace

    runner, _ = Runner.objects.get_or_create(workspace=workspace, name=name)
    runners.beat(runner.pk)
    home, _ = Home.objects.get_or_create(
        runner=runner, provider=provider, path=f"/home/sam/.{provider}", defaults={"queue": str(runner.pk)}
    )
    home.attestation = runners.attestation_to_json(replace(ATTESTATION, **changes))
    home.save()
    return home


def imported(home: Home, title: str, **facts: Any) -> Session:
    """A session of a home whose transcript is completely read, still without turns."""
    session = store.create(
        workspace=home.runner.workspace,
        provider=home.provider,
        home=home,
        provider_session_id=str(uuid.uuid4()),
        title=title,
        provider_version="0.163.0",
        model="gpt-5.2-codex",
        created_at_unix_ms=NOON,
        **{"cwd": "/home/sam/work/importer", **facts},
    )
    SessionSync.objects.create(
        session=session, state=SyncState.IMPORTED, stamp_seen="1", stamp_imported="1", path="/home/sam/rollout.jsonl"
    )
    return session


def conversation(home: Home, title: str = "Fix the flaky import test", turns: int = 0) -> Session:
    """The session with everything in it, and ``turns`` plain turns after that."""
    session = imported(home, title)
    talk = Talk(session)
    _rich(talk)
    for number in range(turns):
        talk.say(f"Question {number + 1}", answer(f"Answer {number + 1}."))
    session.refresh_from_db()
    return session


def _rich(talk: Talk) -> None:
    talk.say(
        "The test `test_rows` fails about once in ten runs. Find out why.\n\nDo not change the test itself yet.",
        (EventKind.REASONING, {"text": "**Looking at the test first.** It may share state with others."}),
        *tool("shell", {"command": "pytest tests/test_import.py -x -q"}, OUTPUT, exitCode=0),
        *tool("shell", {"command": "git log --oneline -5"}, "fatal: not a git repository", isError=True, exitCode=128),
        answer(ANSWER),
    )
    talk.say("Good. Do it, and run the tests a hundred times.", answer("Done: 100 of 100 runs passed."))
    talk.say("Now the same for the export.", answer("I started, then"), outcome=TurnOutcome.INTERRUPTED)
    talk.note(EventKind.CONTEXT, "The working folder changed to /home/sam/work/exporter.")
    talk.say(
        "Go on.",
        (EventKind.COMPACTION, {"text": "We fixed the import test and began with the export.", "trigger": "auto"}),
        *tool("apply_patch", {"path": "export.py", "patch": "-old\n+new"}, "patched"),
        answer("The export had the same mistake; it is fixed."),
    )
    talk.say(
        "What does the model's id look like?", answer("The provider refused."), outcome=TurnOutcome.FAILED, bound=False
    )


def sample(workspace: Workspace, *, make: Callable[[Home], Session] = conversation) -> dict[str, Session]:
    """A workspace with a few sessions: ``source``, a ``running`` one, a ``damaged`` one and one not imported yet."""
    home = home_of(workspace)
    running = imported(home, "Write the release notes", activity="running", cwd="/home/sam/work/site")
    talk = Talk(running)
    talk.say("Draft the notes for 2.0.", answer("Here is a draft."))
    talk.say("Shorter, please.", answer("Working on it …"), outcome=None)
    damaged = imported(home, "An old session with a torn file")
    Talk(damaged).say("Hello", answer("Hello."))
    SessionSync.objects.filter(session=damaged).update(
        damage=[{"line": 17, "reason": "not_json"}, {"line": 40, "reason": "torn"}], damage_count=2
    )
    listed = imported(home, "", preview="Why is the build slow since Monday?")
    SessionSync.objects.filter(session=listed).update(
        state=SyncState.IMPORTING, stamp_imported="", bytes_done=3_400_000, bytes_total=12_000_000
    )
    found = {"source": make(home), "running": running, "damaged": damaged, "listed": listed}
    for session in found.values():
        session.refresh_from_db()
    return found

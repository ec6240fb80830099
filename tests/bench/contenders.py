"""Everybody who forks in the section ``agents``: how each makes one fork, and where the bytes of it go."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from forkhost.demo import claude_home, codex_home
from sessions import runners, store
from sessions.api.hosted import HOSTED
from sessions.discovery import Scanner
from sessions.importing import import_claimed
from sessions.models import Home, Session
from sessions.providers import registry
from sessions.providers.base import ForkAccepted, ForkReporter, ForkRequest, TurnBinding
from sessions.providers.codex.app_server import AppServer, clean_environment
from sessions.providers.codex.executable import Executable, find_executable
from sessions.store import Entry, NewEvent, TurnEnd, TurnStart
from sessions.syncing import claim_next
from tests.bench import opencode, transcripts, world
from tests.bench.transcripts import Words

CODEX_SECONDS = 60.0
WEIGHED = 50
# Diagnostics are no part of a fork.
LOGS = ("log", "logs_2.sqlite")


@dataclass(slots=True)
class Contender:
    """One way to fork. ``stored`` tells the bytes that lie where its forks go; the lists have one entry a fork.

    ``weighed`` forks in a row, not timed, are weighed together where one alone is less than a page of a database.
    ``server`` is the process that works for it besides this one and those it starts. ``cpu`` are seconds, too.
    """

    name: str
    fork: Callable[[], None]
    stored: Callable[[], int]
    weighed: int = 0
    server: int = 0
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    added: list[float] = field(default_factory=list)

    def once(self) -> None:
        """Fork, and keep how long it took and what it left on disk."""
        before = self.stored()
        worked, begun = processor_seconds(self.server), time.perf_counter()
        self.fork()
        self.seconds.append(time.perf_counter() - begun)
        self.cpu.append(processor_seconds(self.server) - worked)
        self.added.append(self.stored() - before)

    def weigh(self) -> None:
        """Replace what single forks added by the share of one in many."""
        if self.weighed:
            before = self.stored()
            for _ in range(self.weighed):
                self.fork()
            self.added = [(self.stored() - before) / self.weighed]


@dataclass(slots=True)
class Through:
    """The same agent's fork through forkhost, and how long the adapter's call within it took."""

    whole: Contender
    calls: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Agent:
    """One agent's own forks of one history, and the same through forkhost where it has an adapter."""

    own: list[Contender]
    through: Through | None = None


@dataclass(slots=True)
class Timed:
    """Stands in front of an adapter's fork and keeps how long its last call took."""

    fork: Callable[[ForkRequest, ForkReporter], ForkAccepted]
    seconds: float = 0.0

    def __call__(self, request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
        begun = time.perf_counter()
        try:
            return self.fork(request, reporter)
        finally:
            self.seconds = time.perf_counter() - begun


def hosted(place: world.World, turns: int) -> list[Contender]:
    """forkhost alone, a session recorded through its API: forked by the whole saga, and by its store without one."""
    session = store.create(workspace=place.workspace, provider=HOSTED, title="Fix login", created_by=place.user)
    words = Words(turns)
    entries: list[Entry] = []
    for number in range(1, turns + 1):
        at = 1_785_326_400_000 + number * 1_000
        prompt = words.text(200)
        entries += [
            TurnStart(at, prompt, TurnBinding(f"turn-{number}")),
            NewEvent("message.user", at, {"text": prompt}),
            NewEvent("message.assistant", at + 500, {"text": words.text(1500)}),
            TurnEnd(at + 500, "completed"),
        ]
    store.append(session.pk, entries)
    session.refresh_from_db()

    def fork() -> None:
        place.fork(session)

    return [
        Contender("forkhost: fork of a hosted session", fork, world.database_bytes, WEIGHED),
        Contender(
            "   its store alone, no operation", lambda: _ignore(store.fork(session.pk)), world.database_bytes, WEIGHED
        ),
    ]


def claude(place: world.World, folder: Path, lengths: tuple[int, ...]) -> list[Agent]:
    """Claude Code's SDK, one for each length."""
    import claude_agent_sdk

    home = claude_home.make_home(folder / "claude-home")
    os.environ["CLAUDE_CONFIG_DIR"] = str(home.config)
    ids = [
        transcripts.write_claude(home.config, 0, seed=turns, turns=turns, cwd=str(home.workdir), steps=0)[0]
        for turns in lengths
    ]

    def stored() -> int:
        return bytes_below(home.config)

    def own(session_id: str) -> Contender:
        return Contender(
            "Claude: the SDK's fork_session", lambda: _ignore(claude_agent_sdk.fork_session(session_id)), stored
        )

    throughs = _throughs(place, "claude", home.config, ids, lengths)
    return [Agent([own(session_id)], through) for session_id, through in zip(ids, throughs, strict=True)]


def codex(place: world.World, folder: Path, lengths: tuple[int, ...], stack: ExitStack) -> list[Agent]:
    """Codex's app-server, one for each length. Raises FileNotFoundError when there is no codex."""
    executable = find_executable(os.environ)
    if executable is None:
        raise FileNotFoundError("there is no codex here")
    project = folder / "project"
    project.mkdir()
    # No model is asked for a fork: nobody listens at that address.
    home = codex_home.make_home(folder / "codex-home", "http://127.0.0.1:9/v1")
    os.environ["CODEX_HOME"] = str(home)
    ids = [transcripts.write_codex(home, 0, seed=turns, turns=turns, cwd=str(project), steps=0)[0] for turns in lengths]
    running = stack.enter_context(_app_server(executable, home))

    def stored() -> int:
        return bytes_below(home)

    def own(thread_id: str) -> list[Contender]:
        def warm() -> None:
            _thread_fork(running, thread_id)

        def cold() -> None:
            with _app_server(executable, home) as server:
                _thread_fork(server, thread_id)

        return [
            Contender("Codex: thread/fork, app-server running", warm, stored, server=running.pid),
            Contender("Codex: app-server started, thread/fork", cold, stored),
        ]

    throughs = _throughs(place, "codex", home, ids, lengths)
    return [Agent(own(thread_id), through) for thread_id, through in zip(ids, throughs, strict=True)]


@contextlib.contextmanager
def _app_server(executable: Executable, home: Path) -> Iterator[AppServer]:
    with AppServer(executable.argv, cwd=home, environment=clean_environment(os.environ, home)) as server:
        server.initialize(time.monotonic() + CODEX_SECONDS)
        yield server


def _thread_fork(server: AppServer, thread_id: str) -> None:
    # As forkhost asks: an answer that tells every turn takes many times as long on long threads.
    server.request("thread/fork", {"threadId": thread_id, "excludeTurns": True}, time.monotonic() + CODEX_SECONDS)


def open_code(folder: Path, lengths: tuple[int, ...], stack: ExitStack) -> list[Agent]:
    """opencode's server, one for each length. Raises :class:`opencode.CannotRun`."""
    server = stack.enter_context(opencode.running(folder / "opencode"))
    agents = []
    for turns in lengths:
        session_id = server.add_session(turns)
        # It copies the wrong messages without a word when it takes a point it does not know.
        if server.count_messages(server.fork(session_id)) != 2 * turns:
            raise opencode.CannotRun("opencode's fork does not hold what its source holds")
        agents.append(Agent([_opencode_fork(server, session_id)]))
    return agents


def _opencode_fork(server: opencode.OpenCode, session_id: str) -> Contender:
    def fork() -> None:
        server.fork(session_id)

    return Contender("opencode: POST /session/{id}/fork", fork, lambda: bytes_below(server.state), server=server.pid)


def _ignore(_: object) -> None:
    """The answer is not looked at."""


def _throughs(
    place: world.World, provider: str, folder: Path, ids: list[str], lengths: tuple[int, ...]
) -> list[Through]:
    home = Home.objects.create(runner=place.runner, provider=provider, path=str(folder), queue=str(place.runner.pk))
    runners.attest(home)
    home.refresh_from_db()
    adapter = registry.adapter(provider)
    Scanner(home, adapter).scan()
    while (lease := claim_next(place.runner.pk, "bench", hurried=False)) is not None:
        import_claimed(lease, lambda: False)
    timed = Timed(adapter.fork)
    adapter.fork = timed  # type: ignore[method-assign]
    return [
        _through(place, timed, Session.objects.get(home=home, provider_session_id=provider_session_id), turns, folder)
        for provider_session_id, turns in zip(ids, lengths, strict=True)
    ]


def _through(place: world.World, timed: Timed, source: Session, turns: int, folder: Path) -> Through:
    if source.turn_count != turns:
        raise RuntimeError(f"{source.turn_count} of {turns} turns were imported")
    calls: list[float] = []

    def fork() -> None:
        if place.fork(source).resolved_ordinal != turns:
            raise RuntimeError("the fork does not go through the last turn")
        calls.append(timed.seconds)

    def stored() -> int:
        return world.database_bytes() + bytes_below(folder)

    return Through(Contender("   the same through forkhost, proven and committed", fork, stored), calls)


def processor_seconds(server: int) -> float:
    """What this process, those it started and that ended, and ``server`` have used of the processors so far."""
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    stat = Path(f"/proc/{server}/stat")
    if server and stat.exists():
        # The name in brackets may hold anything; user and system time are the 14th and 15th field.
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        used += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return used


def bytes_below(folder: Path) -> int:
    """What lies in a folder: a database by its pages in use, so that its journal does not count twice; no logs."""
    total = 0
    for path in folder.rglob("*"):
        if path.name.endswith(("-wal", "-shm")) or any(part in LOGS for part in path.relative_to(folder).parts):
            continue
        if path.suffix in (".db", ".sqlite"):
            total += _pages_in_use(path)
        elif path.is_file():
            total += path.stat().st_size
    return total


def _pages_in_use(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
        pages, free, size = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)

"""The real agents' own forks beside forkhost's of the same session: what the durable operation adds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forkhost.demo import claude_home, codex_home
from forkhost.demo.mock_responses import MockResponses
from sessions import runners
from sessions.discovery import Scanner
from sessions.importing import import_claimed
from sessions.models import Home, Session
from sessions.providers import registry
from sessions.providers.base import ForkAccepted, ForkReporter, ForkRequest
from sessions.providers.codex.app_server import AppServer, clean_environment
from sessions.providers.codex.executable import find_executable
from sessions.syncing import claim_next
from tests.bench import transcripts, world
from tests.bench.report import Report
from tests.bench.sizes import MB, Sizes

MOST_SHARE_SECONDS = 0.025
CODEX_SECONDS = 60.0


@dataclass
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


def run(sizes: Sizes, vendor: str) -> Report:
    """Claude Code's SDK and Codex's app-server, each in turns with forkhost."""
    report = Report("agents", f"The agents' own forks beside forkhost's, {vendor}")
    place = world.make_world()
    folder = Path(os.environ["FORKHOST_BENCH"])
    _claude(report, sizes, place, folder)
    _codex(report, sizes, place, folder)
    report.notes.append(
        "forkhost's call does what the agent's own does, in a process of its own, and proves the child afterwards. "
        "opencode is left out: there is no adapter for it."
    )
    return report


def _claude(report: Report, sizes: Sizes, place: world.World, folder: Path) -> None:
    import claude_agent_sdk

    home = claude_home.make_home(folder / "claude-home")
    session_id, _ = transcripts.write_claude(home.config, 1 * MB, turns=sizes.agent_turns, cwd=str(home.workdir))
    os.environ["CLAUDE_CONFIG_DIR"] = str(home.config)

    def own() -> None:
        claude_agent_sdk.fork_session(session_id)

    _compare(
        report, "Claude: the SDK's fork_session", own, place, "claude", home.config, session_id, sizes.agent_rounds
    )


def _codex(report: Report, sizes: Sizes, place: world.World, folder: Path) -> None:
    project = folder / "project"
    project.mkdir()
    executable = find_executable(os.environ)
    if executable is None:
        raise RuntimeError("there is no codex to compare with")
    with MockResponses() as model:
        home = codex_home.make_home(folder / "codex-home", model.base_url)
        thread = codex_home.run_thread(home, project, [f"Prompt {number}" for number in range(sizes.agent_turns)])
        os.environ["CODEX_HOME"] = str(home)

        def own() -> None:
            with AppServer(executable.argv, cwd=home, environment=clean_environment(os.environ, home)) as server:
                server.initialize(time.monotonic() + CODEX_SECONDS)
                server.request("thread/fork", {"threadId": thread.id}, time.monotonic() + CODEX_SECONDS)

        _compare(report, "Codex: app-server and thread/fork", own, place, "codex", home, thread.id, sizes.agent_rounds)


def _compare(
    report: Report,
    name: str,
    own: Callable[[], None],
    place: world.World,
    provider: str,
    folder: Path,
    provider_session_id: str,
    rounds: int,
) -> None:
    source = _imported(place, provider, folder, provider_session_id)
    adapter = registry.adapter(provider)
    timed = Timed(adapter.fork)
    adapter.fork = timed  # type: ignore[method-assign]
    theirs, whole, calls, shares = [], [], [], []
    for _ in range(rounds):
        begun = time.perf_counter()
        own()
        theirs.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        place.fork(source)
        whole.append(time.perf_counter() - begun)
        calls.append(timed.seconds)
        shares.append(whole[-1] - timed.seconds)
    report.timed(name, theirs)
    report.timed("   forkhost's fork, prepare to committed", whole)
    report.timed("   of which the call, with its proof", calls)
    report.timed("   of which forkhost's own share", shares)


def _imported(place: world.World, provider: str, folder: Path, provider_session_id: str) -> Session:
    home = Home.objects.create(runner=place.runner, provider=provider, path=str(folder), queue=str(place.runner.pk))
    runners.attest(home)
    home.refresh_from_db()
    Scanner(home, registry.adapter(provider)).scan()
    while (lease := claim_next(place.runner.pk, "bench", hurried=False)) is not None:
        import_claimed(lease, lambda: False)
    found: Session = Session.objects.get(home=home, provider_session_id=provider_session_id)
    return found

"""The agents' own forks and forkhost's, side by side: the same turns with the same texts, one fork each in turn.

All lengths take their turns together, so that a machine that is busy for a while slows none of them alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from statistics import fmean

from tests.bench import contenders, opencode, world
from tests.bench.contenders import Agent, Contender
from tests.bench.report import Report, median, ms, p95
from tests.bench.sizes import Sizes

Medians = dict[str, float]


def run(sizes: Sizes, vendor: str) -> Report:
    """Fork histories of each length with every agent that runs here, interleaved."""
    report = Report("agents", f"The agents' own forks beside forkhost's, {vendor}")
    place = world.make_world()
    lengths = sizes.agent_turns
    with ExitStack() as stack:
        agents, missing = _agents(place, lengths, stack)
        hosted = [contenders.hosted(place, turns) for turns in lengths]
        _interleave([*chain(*hosted), *_contenders(list(chain(*agents)))], sizes.agent_rounds)
    first: Medians = {}
    for number, turns in enumerate(lengths):
        _table(report, turns, hosted[number], [each[number] for each in agents], missing, first)
    report.notes += [f"{name} was not measured: {why}." for name, why in missing.items()]
    report.notes += [
        "A turn is a prompt of 200 characters and an answer of 1,500; every history holds the same texts.",
        "x hosted: to forkhost's fork of a hosted session of that length. x own: to the agent's own fork, started as "
        "forkhost starts it. x shorter: to the same line with the shortest history.",
        "cpu: processor time of everybody who works for the fork, a PostgreSQL server's left out; on a busy machine the "
        "figure to go by.",
        "Through forkhost, the agent makes its own fork in a process of its own, and the child is proven before it is "
        "committed; the bytes are those of both sides. Its own share is all but the call: most of it is the look into "
        "the agent's source right before the call, which reads as far as the chosen turn.",
        "Codex is asked for the fork without its turns in the answer. forkhost has no adapter for opencode.",
    ]
    return report


def _agents(
    place: world.World, lengths: tuple[int, ...], stack: ExitStack
) -> tuple[list[list[Agent]], Mapping[str, str]]:
    """Those that run here, each with one entry a length; and why the others do not, by name."""
    folder = Path(os.environ["FORKHOST_BENCH"])
    makers: dict[str, Callable[[], list[Agent]]] = {
        "Claude": lambda: contenders.claude(place, folder, lengths),
        "Codex": lambda: contenders.codex(place, folder, lengths, stack),
        "opencode": lambda: contenders.open_code(folder, lengths, stack),
    }
    agents: list[list[Agent]] = []
    missing: dict[str, str] = {}
    for name, make in makers.items():
        try:
            agents.append(make())
        except (ImportError, FileNotFoundError, opencode.CannotRun) as error:
            missing[name] = str(error)
    return agents, missing


def _contenders(agents: Sequence[Agent]) -> list[Contender]:
    return [each for agent in agents for each in (*agent.own, *([agent.through.whole] if agent.through else []))]


def _interleave(line: Sequence[Contender], rounds: int) -> None:
    # The first fork of each warms caches that the later ones find warm, and does not count.
    for contender in line:
        contender.fork()
    for number in range(rounds):
        start = number % len(line)
        for contender in (*line[start:], *line[:start]):
            contender.once()
    for contender in line:
        contender.weigh()


def _table(
    report: Report,
    turns: int,
    hosted: Sequence[Contender],
    agents: Sequence[Agent],
    missing: Iterable[str],
    first: Medians,
) -> None:
    yard = median(hosted[0].seconds)
    report.add(f"{turns:,} turns")
    for each in hosted:
        _line(report, turns, each, yard, first)
    for agent in agents:
        for own in agent.own:
            _line(report, turns, own, yard, first)
        if agent.through is None:
            continue
        whole, own = agent.through.whole, agent.own[-1]
        _line(report, turns, whole, yard, first, own=own)
        shares = [
            seconds - call
            for seconds, call in zip(whole.seconds, agent.through.calls[-len(whole.seconds) :], strict=True)
        ]
        share = Contender("   of which forkhost's own share", whole.fork, whole.stored, seconds=shares)
        _line(report, turns, share, yard, first, own=own)
    for name in missing:
        report.add(name, median_ms="not run", facts={"turns": turns, "run": False})


def _line(
    report: Report, turns: int, each: Contender, yard: float, first: Medians, own: Contender | None = None
) -> None:
    middle = median(each.seconds)
    key = each.name if own is None else f"{own.name}, {each.name}"
    shorter = first.setdefault(key, middle)
    facts = {
        "turns": turns,
        "median": middle,
        "p95": p95(each.seconds),
        "count": len(each.seconds),
        "cpu": fmean(each.cpu) if each.cpu else None,
        "bytes": fmean(each.added) if each.added else None,
        "times_hosted": middle / yard,
        "times_own": middle / median(own.seconds) if own else None,
        "times_shortest": middle / shorter,
    }
    report.add(
        each.name,
        facts=facts,
        n=len(each.seconds),
        median_ms=ms(middle),
        p95_ms=ms(p95(each.seconds)),
        cpu_ms=ms(fmean(each.cpu)) if each.cpu else "",
        bytes_added=f"{fmean(each.added):,.0f}" if each.added else "",
        x_hosted=f"{middle / yard:.2f}",
        x_own=f"{middle / median(own.seconds):.2f}" if own else "",
        x_shorter=f"{middle / shorter:.2f}",
    )

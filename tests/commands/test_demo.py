"""``manage.py demo``: sample sessions of real agents, and forks that were really made."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from forkhost.demo import samples
from forkhost.demo.making import MADE
from tests.commands.conftest import Start


def test_the_samples_and_their_forks_are_there(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "demo"
    arguments = ("demo", "--data", str(data), "--bind", "127.0.0.1:0", "--no-open")
    first = start(*arguments, DATABASE_URL="postgresql://real@127.0.0.1:1/real")
    first.wait_for("Stop:", seconds=300)
    assert first.stop() == 0, first.output
    assert f"./manage.py token NAME --create --data {data}\n" in first.output
    making = first.output[: first.output.index("A token for its API")]
    assert [line for line in making.splitlines() if not line.startswith(("Making", "Importing"))] == []
    wanted = [*samples.CODEX, *samples.CLAUDE]
    forks = [sample.fork for sample in wanted if sample.fork]
    with sqlite3.connect(data / "forkhost.sqlite3") as connection:
        rows = connection.execute(
            "SELECT provider, title, preview, turn_count, cwd, seed_length > 0 FROM agent_sessions_session"
        ).fetchall()
        committed = connection.execute("SELECT count(*) FROM operations_operation WHERE status = 'committed'")
        assert committed.fetchone()[0] == len(forks)
    roots = {(title or preview)[:40] for _, title, preview, *_, forked in rows if not forked}
    assert roots == {(sample.title or sample.exchanges[0].prompt)[:40] for sample in wanted}
    assert {turns for *_, turns, _, forked in rows if forked} == {fork.through + len(fork.exchanges) for fork in forks}
    assert {cwd for *_, cwd, _ in rows} == {str(data / "shop")}, "both agents work in the one sample project"
    assert (data / "agents" / MADE).exists(), "the next start finds them made"

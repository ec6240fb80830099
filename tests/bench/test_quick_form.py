"""The benchmark runs, and what it counts holds; times are not judged, because a test never has the machine to itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
SECTIONS = "fork,many,host,workers"

pytestmark = pytest.mark.serial


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The reports of one quick run, by section, on the kind of database that the suite runs on."""
    result = tmp_path_factory.mktemp("bench") / "result.json"
    database = "postgresql" if os.environ.get("DATABASE_URL", "").startswith("postgres") else "sqlite"
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--only", SECTIONS, "--database", database, "--json", result],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return {report["section"]: report for report in json.loads(result.read_text())}


def rows(report: dict[str, Any], word: str = "") -> list[dict[str, Any]]:
    found = [row for row in report["rows"] if word in row["what"]]
    assert found
    return found


def test_a_fork_writes_the_same_rows_however_long_the_history_is(reports: dict[str, dict[str, Any]]) -> None:
    for way in ("store", "saga"):
        written = [row["facts"]["rows"] for row in rows(reports["fork"], f"{way}:")]
        assert len(written) == 3
        assert written[0] == written[1] == written[2]
        assert not {"agent_sessions_event", "agent_sessions_turn"} & set(written[0])
        assert written[0]["agent_sessions_session"] == 1


def test_many_forks_of_one_source_write_as_many_rows_each(reports: dict[str, dict[str, Any]]) -> None:
    single = rows(reports["fork"], "store:")[0]["facts"]["rows"]
    assert rows(reports["many"], "store")[0]["facts"]["rows"] == sum(single.values())


def test_every_request_is_answered_and_every_fork_committed(reports: dict[str, dict[str, Any]]) -> None:
    assert [row["facts"]["count"] for row in rows(reports["host"])] == [8, 8, 6, 6]
    assert [(row["facts"]["forks"], row["facts"]["wrong"]) for row in rows(reports["workers"])] == [(10, 0), (10, 0)]


def test_nothing_is_judged_by_its_time(reports: dict[str, dict[str, Any]]) -> None:
    assert all(row["kept"] is None for report in reports.values() for row in report["rows"])

"""The section `agents` puts every agent on its lines, and one that does not run here is told, not left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.bench.contenders import Contender


def contender(name: str, *seconds: float, added: int = 0) -> Contender:
    from tests.bench.contenders import Contender

    return Contender(name, lambda: None, lambda: 0, seconds=list(seconds), added=[added])


def test_each_line_has_its_ratios_and_who_does_not_run_has_a_line_too() -> None:
    from tests.bench import agents
    from tests.bench.contenders import Agent, Through
    from tests.bench.report import Report

    report = Report("agents", "Forks")
    first: dict[str, float] = {}
    for turns, slower in ((100, 1), (1_000, 4)):
        through = Through(contender("through", 0.030, added=9_000), calls=[0.020])
        agent = Agent([contender("own", 0.010 * slower, added=3_000 * slower)], through)
        agents._table(report, turns, [contender("forkhost", 0.020)], [agent], ["opencode"], first)
    lines = [(row.what.strip(), row.cells.get("x hosted"), row.cells.get("x own")) for row in report.rows]
    assert lines[:6] == [
        ("100 turns", None, None),
        ("forkhost", "1.00", ""),
        ("own", "0.50", ""),
        ("through", "1.50", "3.00"),
        ("of which forkhost's own share", "0.50", "1.00"),
        ("opencode", None, None),
    ]
    assert [row.cells["x shorter"] for row in report.rows if row.what == "own"] == ["1.00", "4.00"]
    assert [row.cells["bytes added"] for row in report.rows if row.what == "own"] == ["3,000", "12,000"]
    assert [row.cells["median ms"] for row in report.rows if row.what == "opencode"] == ["not run", "not run"]
    assert "not run" in report.text()


def test_without_npm_it_is_said_why_opencode_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tests.bench import opencode

    monkeypatch.setattr(opencode, "INSTALLED", tmp_path / "opencode")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(opencode.CannotRun, match="npm, which is not installed"):
        opencode.program()


def test_what_npm_refuses_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tests.bench import opencode

    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error code EBADPLATFORM' >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setattr(opencode, "INSTALLED", tmp_path / "opencode")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(opencode.CannotRun, match="EBADPLATFORM"):
        opencode.program()
    assert not (tmp_path / "opencode" / "installed").exists()

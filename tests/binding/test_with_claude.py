"""Claude Code reads a fork only where it made it, so another home is refused when the fork is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from forkhost.demo.claude_home import make_home, run_turns
from forkhost.demo.mock_messages import MockMessages
from operations import saga
from operations.models import Operation, RequestAlias
from sessions import runners, switches
from sessions.models import Home
from tests.claude.conftest import mock
from tests.conftest import People
from tests.console.agents import make_place

__all__ = ["mock"]


@pytest.mark.django_db
def test_another_home_is_refused_and_nothing_is_written_or_called(
    people: People, mock: MockMessages, tmp_path: Path
) -> None:
    home = make_home(tmp_path / "claude")
    source_id = run_turns(home, mock.url, ["Name a colour."])
    place = make_place(people, "claude", home.config)
    runners.ensure_homes(place.runner, {}, [("claude", tmp_path / "other")])
    other = Home.objects.get(path=str(tmp_path / "other"))
    switches.set_fork_home(people.workspace, "claude", other, actor="user:operator", reason="a try")
    before = {path: path.read_bytes() for path in home.config.glob("projects/*/*")}
    with pytest.raises(saga.Refused) as refused:
        place.fork(place.session(source_id), 1)

    assert (refused.value.code, refused.value.status) == ("bind_unsupported", 409)
    assert not Operation.objects.exists()
    assert not RequestAlias.objects.exists()
    assert {path: path.read_bytes() for path in home.config.glob("projects/*/*")} == before

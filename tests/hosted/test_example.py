"""The worked example of docs/hosted-sessions.md is run as it stands, against a live server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_django.live_server_helper import LiveServer

    from tests.conftest import People

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "record_and_fork.py"
PAGE = EXAMPLE.parents[1] / "hosted-sessions.md"


@pytest.mark.django_db(transaction=True)
def test_the_example_records_turns_forks_at_one_and_goes_on_in_both(
    live_server: LiveServer, people: People, carry_out: Callable[[], int]
) -> None:
    from forkhost.kit.scopes import ALL_SCOPES
    from forkhost.models import ApiToken
    from sessions.models import Session

    token = ApiToken.issue(people.member, scopes=ALL_SCOPES)
    program = subprocess.Popen(
        [sys.executable, str(EXAMPLE), live_server.url],
        env={"PATH": os.environ["PATH"], "FORKHOST_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with program:
        while program.poll() is None:
            carry_out()
            with_timeout(program)
        out, err = program.communicate()
    assert (program.returncode, err) == (0, ""), err
    # Two answers in the source before the third; one in the child before its second.
    assert out.splitlines() == ["polish: I remember 2 answers.", "build otherwise: I remember 1 answers."]
    assert dict(Session.objects.values_list("title", "turn_count")) == {"Two ways": 3, "Two ways (2)": 2}


def with_timeout(program: subprocess.Popen[str]) -> None:
    """Let it go on for a moment."""
    try:
        program.wait(0.05)
    except subprocess.TimeoutExpired:
        return


def test_the_page_shows_the_very_file() -> None:
    assert f"```python\n{EXAMPLE.read_text()}```" in PAGE.read_text()

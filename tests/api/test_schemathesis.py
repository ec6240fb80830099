"""Schemathesis attacks a running server with everything ``openapi.json`` allows and forbids: nothing may be found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forkhost.models import ApiToken

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.conftest import People

SCHEMA = Path(__file__).resolve().parents[2] / "openapi.json"
EXAMPLES = 10
# Its fourth phase guesses links between operations and repeats these cases for minutes.
PHASES = "examples,coverage,fuzzing"

# A schema cannot say which texts are cursors, so lists may refuse one that it allows.
PAGED = ("search", "listSessions", "listTurns", "listEvents", "listClaims", "listForkOperations")


def _configuration(people: People, session: Session, secret: str) -> str:
    """Real ids, so that requests get past the 404; a session is deleted under another id than the one all others use."""
    workspace, source = json.dumps(str(people.workspace.pk)), json.dumps(str(session.pk))
    return f"""
headers = {{ Authorization = "Bearer {secret}" }}
request-timeout = 20

[parameters]
"path.workspaceId" = {workspace}
"path.agentSessionId" = {source}

[[operations]]
include-operation-id = "deleteSession"
parameters = {{ "path.agentSessionId" = "3f6c2a1e-8f0b-4f57-9a53-8f3bb4a1c002" }}
""" + "".join(
        f"""
[[operations]]
include-operation-id = "{name}"
checks.positive_data_acceptance.expected-statuses = [200, 400, 404, 409]
"""
        for name in PAGED
    )


@pytest.mark.django_db(transaction=True)
def test_schemathesis_finds_nothing(
    live_server: Any, people: People, hosted: Callable[..., Session], tmp_path: Path
) -> None:
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(_configuration(people, hosted(turns=3), ApiToken.issue(people.member)))
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(configuration), "run"]
    command += [str(SCHEMA), "--url", live_server.url, "--max-examples", str(EXAMPLES), "--seed", "1"]
    command += ["--phases", PHASES, "--continue-on-failure", "--warnings", "off"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""Transcripts with lines nobody can read, from the file to the page: what can be read is there, the rest is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from operations import saga
from operations.models import Operation
from operations.points import parse_point
from operations.requests import PrepareRequest, Refused
from sessions import history, runners
from sessions.models import Home, Session
from sessions.providers import registry
from sessions.providers.base import Attestation, BindingMode, HomeRef, IdentityMode, PointSupport, ReadTurnStart
from sessions.workspaces import default_workspace, join
from tests.importing.conftest import RECORDINGS, Desk, desk, put_claude, put_codex
from tests.pages.support import session_page, words

__all__ = ["desk"]

HUGE = 12_000_000
UNREADABLE = {
    "cut off": b'{"type":"user","uu',
    "not UTF-8": b'{"type":"user","text":"\xff\xfe"',
    "two writers in one line": b'{"type":"assis{"type":"user"}tant"}',
    "half of a surrogate's bytes": b'"\xed\xa0\xbd',
    "no JSON": b"Killed: 9",
    "NULs of a lost page": b"\0" * 512,
}
ODD = "a\u2028b\u0085c \u202eabc\u202c \x1b[31mred </script> \ud83d end"
SOURCE_ID = json.loads((RECORDINGS / "claude" / "expected_turns.json").read_text())["source"]["session_id"]


def claude(desk: Desk) -> tuple[Home, Path]:
    home = put_claude(desk, source=SOURCE_ID)
    return home, next(Path(home.path).rglob("*.jsonl"))


def codex(desk: Desk) -> tuple[Home, Path]:
    home = put_codex(desk, "0.147.0-legacy")
    source = json.loads((RECORDINGS / "codex" / "0.147.0-legacy" / "ids.json").read_text())["threads"]["source"]["id"]
    return home, next(Path(home.path).rglob(f"*{source}.jsonl"))


AGENTS = {"claude": claude, "codex": codex}


def lines_of(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if line]


def prompts_in(home: Home, path: Path) -> list[str]:
    """What the undamaged transcript holds, as its adapter reads it."""
    adapter = registry.adapter(home.provider)
    refs = [found.ref for found in adapter.discover(HomeRef(home.provider, Path(home.path)), {})]
    (ref,) = [ref for ref in refs if ref.path == path]
    return [item.prompt for item in adapter.read(ref, None, None) if isinstance(item, ReadTurnStart)]


def session_at(path: Path) -> Session:
    found: Session = Session.objects.select_related("sync", "home", "workspace").get(sync__path=str(path))
    return found


def able(home: Home) -> None:
    """A worker proved that the agent forks at any turn."""
    proof = Attestation(
        "d", "0.171.0", "f", PointSupport.ANY_TURN, True, BindingMode.HOST_COPY, IdentityMode.MARKER, 9.0
    )
    home.attestation = runners.attestation_to_json(proof)
    home.save()


@pytest.fixture
def user(db: None) -> User:
    person = User.objects.create_user("reader")
    join(person, default_workspace())
    return person


def fork(session: Session, user: User) -> Any:
    request = PrepareRequest(
        workspace_id=session.workspace_id,
        user=user,
        source_session_id=session.pk,
        request_id="damaged",
        target_session_id="7f3a0000-0000-4000-8000-000000000001",
        point=parse_point({"type": "latestSettled"}),
    )
    return saga.prepare(request)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("line", UNREADABLE.values(), ids=UNREADABLE)
def test_a_line_nobody_can_read_is_named_on_the_page_and_every_other_one_is_there(
    desk: Desk, user: User, agent: str, line: bytes
) -> None:
    home, path = AGENTS[agent](desk)
    prompts = prompts_in(home, path)
    lines = lines_of(path)
    at = len(lines) - 3
    path.write_bytes(b"\n".join([*lines[:at], line, *lines[at:]]) + b"\n")
    before = path.read_bytes()
    desk.bring_in(home)
    session = session_at(path)
    assert [turn.prompt for turn in history.turns(session)] == prompts
    assert [entry["line"] for entry in session.sync.damage] == [at + 1]
    reader = Client()
    reader.force_login(user)
    page = words(reader.get(session_page(session)))
    assert "1 line of the transcript could not be read." in page
    assert f"Line {at + 1}:" in page
    assert path.read_bytes() == before


@pytest.mark.parametrize("agent", AGENTS)
def test_a_transcript_cut_off_in_the_middle_shows_what_came_before(desk: Desk, user: User, agent: str) -> None:
    home, path = AGENTS[agent](desk)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    desk.bring_in(home)
    session = session_at(path)
    assert session.turn_count > 0
    reader = Client()
    reader.force_login(user)
    assert "Turn 1" in words(reader.get(session_page(session)))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_output_of_twelve_megabytes_and_odd_characters_make_a_small_page(desk: Desk, user: User, agent: str) -> None:
    home, path = AGENTS[agent](desk)
    rows = [json.loads(line) for line in lines_of(path)]
    enlarged = [enlarge(row) for row in rows]
    assert any(enlarged)
    path.write_bytes(b"\n".join(json.dumps(row).encode() for row in rows) + b"\n")
    desk.bring_in(home)
    session = session_at(path)
    assert session.sync.damage_count == 0
    reader = Client()
    reader.force_login(user)
    page = reader.get(session_page(session))
    assert page.status_code == 200
    assert len(page.content) < 200_000
    assert b"</script> \xef\xbf\xbd end" not in page.content


def enlarge(row: dict[str, Any]) -> bool:
    """Make every tool output of the row huge and odd; whether there was one."""
    text = ODD + "x" * HUGE
    if row.get("payload", {}).get("type") == "function_call_output":
        row["payload"]["output"] = text
        return True
    content = row.get("message", {}).get("content")
    results = [b for b in content if b.get("type") == "tool_result"] if isinstance(content, list) else []
    for result in results:
        result["content"] = text
    return bool(results)


def test_a_damaged_codex_session_is_refused_with_a_code_and_a_sentence_and_nothing_is_written(
    desk: Desk, user: User
) -> None:
    home, path = codex(desk)
    able(home)
    path.write_bytes(b"\n".join([*lines_of(path)[:-2], b"{torn"]) + b"\n")
    desk.bring_in(home)
    with pytest.raises(Refused) as refused:
        fork(session_at(path), user)
    assert (refused.value.code, refused.value.status) == ("source_damaged", 409)
    assert refused.value.sentence.endswith(".")
    assert not Operation.objects.exists()

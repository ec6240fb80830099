"""What real agents recorded arrives in the store as the turns a person read in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from sessions import capabilities, history, runners
from sessions.choices import Activity, SyncState
from sessions.models import Session
from sessions.providers.base import Attestation, BindingMode, IdentityMode, PointSupport
from tests.importing.conftest import RECORDINGS, Desk, only_session, put_claude, put_codex

CLAUDE: dict[str, Any] = json.loads((RECORDINGS / "claude" / "expected_turns.json").read_text())
ABLE = Attestation(
    "driver", "0.171.0", "f", PointSupport.ANY_TURN, True, BindingMode.HOST_COPY, IdentityMode.MARKER, 30.0
)


def able(session: Session) -> Session:
    """The session once a worker has attested its home."""
    assert session.home is not None
    session.home.attestation = runners.attestation_to_json(ABLE)
    session.home.attested_at = timezone.now()
    session.home.save()
    return session


def forkable_turns(session: Session) -> list[int]:
    capability = capabilities.session_capability(session)
    return [
        turn.ordinal
        for turn in history.turns(session)
        if capabilities.turn_capability(session, turn, capability).forkable
    ]


@pytest.mark.parametrize("recording", [name for name, facts in CLAUDE.items() if not facts["torn"]])
def test_a_claude_transcript_has_the_turns_that_were_read_in_it(desk: Desk, recording: str) -> None:
    facts = CLAUDE[recording]
    home = put_claude(desk, **{recording: facts["session_id"]})
    desk.bring_in(home)
    session = only_session(home)
    turns = history.turns(session)
    assert [turn.binding.data["checkpoint"] for turn in turns if turn.binding] == [
        turn["checkpoint"] for turn in facts["turns"]
    ]
    assert session.sync.state == SyncState.IMPORTED
    assert session.sync.bytes_done == session.sync.bytes_total > 0
    assert session.activity == Activity.IDLE
    assert session.turn_count == len(turns)


@pytest.mark.parametrize("recording", ["0.171.0", "0.147.0-legacy"])
def test_a_codex_home_has_its_threads_with_prompts_outcomes_and_who_forked_whom(desk: Desk, recording: str) -> None:
    ids = json.loads((RECORDINGS / "codex" / recording / "ids.json").read_text())["threads"]
    home = put_codex(desk, recording)
    desk.bring_in(home)
    by_id = {session.provider_session_id: session for session in Session.objects.filter(home=home)}
    assert set(by_id) == {thread["id"] for thread in ids.values()}
    source = by_id[ids["source"]["id"]]
    assert [(turn.prompt[:13], turn.outcome) for turn in history.turns(source)] == [
        ("First prompt:", "completed"),
        ("Second prompt", "completed"),
        ("Third prompt:", "completed"),
        ("Fourth prompt", "completed"),
        ("Source contin", "completed"),
        ("Slow prompt [", "interrupted"),
    ]
    child = by_id[ids["child (fork at source turn 2)"]["id"]]
    assert child.observed_parent_id == source.pk
    assert child.family_id == source.family_id
    assert [turn.prompt for turn in history.turns(child)][-1] == "Child continues: EGGPLANT"


def test_a_session_of_each_recorded_agent_can_be_forked_at_its_settled_turns(desk: Desk) -> None:
    codex = put_codex(desk, "0.171.0")
    claude = put_claude(desk, source=CLAUDE["source"]["session_id"])
    desk.bring_in(codex)
    desk.bring_in(claude)
    for home, turns in ((codex, 6), (claude, 4)):
        session = Session.objects.select_related("sync", "home").filter(home=home).order_by("-turn_count")[0]
        assert forkable_turns(able(session)) == list(range(1, turns + 1))


def test_turns_without_ids_of_their_own_are_shown_and_say_why_they_cannot_be_forked_at(desk: Desk) -> None:
    home = put_codex(desk, "0.58.0-no-turn-ids")
    desk.bring_in(home)
    session = able(only_session(home))
    turns = history.turns(session)
    assert [turn.prompt[:15] for turn in turns] == ["old prompt one", "old prompt two ", "old prompt thre"]
    assert {turn.binding_reason for turn in turns} == {"turn_id_synthesized"}
    assert forkable_turns(session) == []


def test_a_torn_transcript_shows_the_rest_and_names_the_line(desk: Desk) -> None:
    home = put_claude(desk, child_torn=CLAUDE["child_torn"]["session_id"])
    desk.bring_in(home)
    session = only_session(home)
    assert session.sync.state == SyncState.IMPORTED
    assert session.sync.damage_count == 1
    assert session.sync.damage == [{"line": 10, "reason": "torn_tail"}]
    assert session.turn_count == len(CLAUDE["child_torn"]["turns"]) >= 1


def test_importing_the_same_home_again_writes_nothing(desk: Desk, tmp_path: Path) -> None:
    home = put_codex(desk, "0.163.0-rich")
    desk.bring_in(home)
    before = list(Session.objects.order_by("pk").values_list("pk", "version", "last_seq", "updated_at_unix_ms"))
    assert desk.scan(home) == 0
    assert desk.read_one() is None
    assert list(Session.objects.order_by("pk").values_list("pk", "version", "last_seq", "updated_at_unix_ms")) == before

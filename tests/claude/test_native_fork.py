"""Forks by the real SDK, continued by the real agent: the model sees the chosen prefix and nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from forkhost.demo.claude_home import ClaudeHome, run_turns
from forkhost.demo.mock_messages import MockMessages, Reply, ToolUse
from sessions.providers.base import ForkAccepted, HomeRef, SessionRef
from sessions.providers.claude.adapter import ClaudeAdapter
from tests.claude.support import Reporter, SeenTurn, read, ref_of, request_for, turns_of

SCRIPT = {
    "Name a colour.": Reply("Blue."),
    "Run echo.": Reply("It said hi.", tools=[ToolUse("Bash", {"command": "echo hi", "description": "Say hi"})]),
    "Name a fruit.": Reply("Apple.", thinking="A fruit, let me see."),
    "Name a city.": Reply("Paris."),
}
BASH = '[call Bash {"command": "echo hi", "description": "Say hi"}]'
COLOUR = [("user", "Name a colour."), ("assistant", "Blue.")]
ECHO = [("user", "Run echo."), ("assistant", BASH), ("user", "[result hi]"), ("assistant", "It said hi.")]
NEW = ("user", "Something new.")


@pytest.fixture
def source(home: ClaudeHome, mock: MockMessages) -> SessionRef:
    mock.script.update(SCRIPT)
    return ref_of(home.config, run_turns(home, mock.url, list(SCRIPT)))


def sha256(path: Path | None) -> str:
    assert path is not None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def forked(source: SessionRef, turns: list[SeenTurn], number: int, operation: int = 1) -> ForkAccepted:
    request = request_for(source, turns, number, operation=f"7f3a0000-0000-4000-8000-{operation:012d}")
    ClaudeAdapter().confirm_turn(request)
    return ClaudeAdapter().fork(request, Reporter())


def context_of_next_turn(home: ClaudeHome, mock: MockMessages, child_id: str) -> list[tuple[str, str]]:
    run_turns(home, mock.url, [NEW[1]], resume=child_id)
    return mock.main_contexts()[-1]


def test_a_fork_at_an_inner_turn_gives_the_model_exactly_the_prefix(
    home: ClaudeHome, mock: MockMessages, source: SessionRef
) -> None:
    before = sha256(source.path)
    turns = turns_of(read(source))
    assert [turn.prompt for turn in turns] == list(SCRIPT)
    assert {turn.outcome for turn in turns} == {"completed"}
    reporter = Reporter()
    accepted = ClaudeAdapter().fork(request_for(source, turns, 2), reporter)

    assert reporter.heard == ["process", "announce"]
    assert reporter.announced == accepted.child_provider_session_id
    assert context_of_next_turn(home, mock, accepted.child_provider_session_id) == [*COLOUR, *ECHO, NEW]
    assert sha256(source.path) == before


def test_the_answer_maps_every_inherited_turn_to_the_childs_own_rows(source: SessionRef) -> None:
    turns = turns_of(read(source))
    accepted = forked(source, turns, 3)
    child = turns_of(read(ref_of(source.home.path, accepted.child_provider_session_id)))
    assert [entry.source_provider_turn_id for entry in accepted.mapping] == [turn.turn_id for turn in turns[:3]]
    assert [entry.target for entry in accepted.mapping] == [turn.binding for turn in child]
    assert not accepted.kept


def test_the_child_has_its_title_its_mark_and_its_origin(source: SessionRef) -> None:
    accepted = forked(source, turns_of(read(source)), 1)
    assert accepted.warnings == ()
    found = {each.ref.provider_session_id: each for each in ClaudeAdapter().discover(source.home, {})}
    child = found[accepted.child_provider_session_id]
    assert child.title == "A fork (2)"
    assert child.fork_operation_id == "7f3a0000-0000-4000-8000-000000000001"
    assert child.observed_parent_id == source.provider_session_id
    assert child.ref.path == accepted.child_path
    assert accepted.receipt["sourceSha256"]
    assert accepted.child_path is not None
    assert accepted.child_path.stat().st_mode & 0o777 == 0o600


def test_only_what_follows_the_fork_is_read_from_our_own_child(
    home: ClaudeHome, mock: MockMessages, source: SessionRef
) -> None:
    accepted = forked(source, turns_of(read(source)), 2)
    run_turns(home, mock.url, [NEW[1]], resume=accepted.child_provider_session_id)
    child = ref_of(home.config, accepted.child_provider_session_id)
    own = turns_of(read(child, after=accepted.mapping[-1].target))
    assert [(turn.prompt, turn.outcome) for turn in own] == [(NEW[1], "completed")]


def test_a_fork_of_the_fork_at_an_inherited_turn_and_at_its_own(
    home: ClaudeHome, mock: MockMessages, source: SessionRef
) -> None:
    child_id = forked(source, turns_of(read(source)), 2).child_provider_session_id
    run_turns(home, mock.url, ["Name a city."], resume=child_id)
    child = ref_of(home.config, child_id)
    turns = turns_of(read(child))
    at_inherited = forked(child, turns, 1, 2).child_provider_session_id
    at_own = forked(child, turns, 3, 3).child_provider_session_id
    assert context_of_next_turn(home, mock, at_inherited) == [*COLOUR, NEW]
    city = [("user", "Name a city."), ("assistant", "Paris.")]
    assert context_of_next_turn(home, mock, at_own) == [*COLOUR, *ECHO, *city, NEW]


def test_three_forks_of_one_source_are_three_whole_children(
    home: ClaudeHome, mock: MockMessages, source: SessionRef
) -> None:
    turns = turns_of(read(source))
    before = sha256(source.path)
    children = [forked(source, turns, 1, number).child_provider_session_id for number in (1, 2, 3)]
    assert len(set(children)) == 3
    assert context_of_next_turn(home, mock, children[2]) == [*COLOUR, NEW]
    assert sha256(source.path) == before
    assert len(turns_of(read(ref_of(home.config, children[1])))) == 1


def test_a_fork_after_a_compaction_keeps_the_messages_that_were_preserved(home: ClaudeHome, mock: MockMessages) -> None:
    mock.script.update(SCRIPT)
    source = ref_of(
        home.config, run_turns(home, mock.url, ["Name a colour.", "Name a city.", "/compact", "Name a fruit."])
    )
    turns = turns_of(read(source))
    assert [turn.origin for turn in turns] == ["user", "user", "compaction", "user"]
    at_compaction = forked(source, turns, 3, 1).child_provider_session_id
    after = forked(source, turns, 4, 2).child_provider_session_id
    for child_id, last in ((at_compaction, ("user", "[")), (after, ("assistant", "Apple."))):
        seen = context_of_next_turn(home, mock, child_id)
        assert ("assistant", "Paris.") in seen
        assert ("assistant", "Blue.") not in seen
        assert seen[-1] == NEW
        assert (seen[-2] == last) is (child_id == after)


def test_a_fork_before_a_compaction_has_the_whole_old_context(home: ClaudeHome, mock: MockMessages) -> None:
    mock.script.update(SCRIPT)
    source = ref_of(home.config, run_turns(home, mock.url, ["Name a colour.", "Name a city.", "/compact"]))
    accepted = forked(source, turns_of(read(source)), 2)
    city = [("user", "Name a city."), ("assistant", "Paris.")]
    assert context_of_next_turn(home, mock, accepted.child_provider_session_id) == [*COLOUR, *city, NEW]


def test_a_line_separator_in_a_prompt_survives_the_fork(home: ClaudeHome, mock: MockMessages) -> None:
    odd = "Sep\u2028two\u0085three."
    mock.script.update({**SCRIPT, odd: Reply("Second.")})
    source = ref_of(home.config, run_turns(home, mock.url, ["Name a colour.", odd, "Name a city."]))
    turns = turns_of(read(source))
    assert turns[1].prompt == odd
    accepted = forked(source, turns, 2)
    expected = [*COLOUR, ("user", odd), ("assistant", "Second."), NEW]
    assert context_of_next_turn(home, mock, accepted.child_provider_session_id) == expected


def test_attesting_proves_any_turn_and_leaves_the_home_alone(home: ClaudeHome, adapter: ClaudeAdapter) -> None:
    before = sorted(home.config.rglob("*"))
    proof = adapter.attest(HomeRef("claude", home.config))
    assert (proof.points, proof.reason, proof.identity_mode, proof.binding_mode) == (
        "any-turn",
        "",
        "announced",
        "provider_owned",
    )
    assert proof.driver_version
    assert proof == adapter.attest(HomeRef("claude", home.config))
    assert sorted(home.config.rglob("*")) == before

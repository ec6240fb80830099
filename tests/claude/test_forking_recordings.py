"""Every turn of every recording, forked by the SDK's own code, gives a child that reads back as exactly those turns."""

from __future__ import annotations

from pathlib import Path

import claude_agent_sdk  # the whole package first, so that the part loaded below is the same one
import pytest

from sessions.providers.claude import sdk
from sessions.providers.claude.adapter import ClaudeAdapter
from sessions.providers.claude.evidence import checkpoint_of
from sessions.providers.claude.local_store import LocalAtomicStore
from tests.claude.support import SeenTurn, expected, place, read, ref_of, request_for, session_id, turns_of


def told(turns: list[SeenTurn]) -> list[tuple[str, str, str, list[object]]]:
    return [(turn.origin, turn.prompt, turn.outcome, list(turn.items)) for turn in turns]


@pytest.mark.parametrize("name", sorted(set(expected()) - {"child_torn"}))
def test_each_turn_forks_to_its_prefix(name: str, config: Path) -> None:
    place(config, name)
    source = ref_of(config, session_id(name))
    assert source.path is not None
    turns = turns_of(read(source))
    before = source.path.read_bytes()
    module = sdk.load()
    assert module.fork_session_via_store is claude_agent_sdk.fork_session_via_store
    for number in range(1, len(turns) + 1):
        request = request_for(source, turns, number)
        checkpoint = checkpoint_of(request.turn.binding)
        announced: list[str] = []
        store = LocalAtomicStore(source.path, session_id(name), checkpoint, announced.append)
        child_id = sdk.fork(module, store, session_id(name), checkpoint, request.marker)
        assert announced == [child_id]
        accepted = ClaudeAdapter().verify(request, child_id)
        assert told(turns_of(read(ref_of(config, child_id)))) == told(turns[:number])
        assert len(accepted.mapping) == number
    assert source.path.read_bytes() == before

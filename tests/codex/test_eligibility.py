"""Whether a turn can be forked at is decided without touching anything, and every no has a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sessions.providers.base import (
    Attestation,
    BindingMode,
    IdentityMode,
    PointSupport,
    SessionFacts,
    TurnBinding,
)
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.reasons import SENTENCES, nothing_made

ATTESTED = Attestation(
    driver_kind="codex-app-server",
    driver_version="0.171.0",
    fingerprint="0" * 64,
    points=PointSupport.ANY_TURN,
    whole_session=True,
    binding_mode=BindingMode.HOST_COPY,
    identity_mode=IdentityMode.MARKER,
    longest_fork_seconds=30,
)
TOO_OLD = replace(ATTESTED, points=PointSupport.UNSUPPORTED, reason="codex_too_old")
FACTS = SessionFacts("01a2", "0.171.0", "/home/dev/project", damaged=False)
BOUND = TurnBinding("01a3")


@pytest.mark.parametrize(
    ("attestation", "facts", "binding", "reason"),
    [
        (ATTESTED, FACTS, BOUND, ""),
        (ATTESTED, FACTS, None, ""),
        (None, FACTS, BOUND, "attestation_missing"),
        (TOO_OLD, FACTS, BOUND, "codex_too_old"),
        (ATTESTED, replace(FACTS, damaged=True), BOUND, "source_damaged"),
        (ATTESTED, replace(FACTS, extra={"archived": True}), None, "source_archived"),
        (
            ATTESTED,
            replace(FACTS, extra={"unreadable": "source_transcript_missing"}),
            None,
            "source_transcript_missing",
        ),
        (ATTESTED, FACTS, TurnBinding("", reason="turn_id_synthesized"), "turn_id_synthesized"),
        (ATTESTED, FACTS, TurnBinding("", reason="turn_unended"), "turn_unended"),
        (ATTESTED, FACTS, TurnBinding(""), "turn_unbound"),
    ],
)
def test_every_case_has_its_reason(
    adapter: CodexAdapter,
    attestation: Attestation | None,
    facts: SessionFacts,
    binding: TurnBinding | None,
    reason: str,
) -> None:
    assert adapter.can_fork(attestation, facts, binding) == reason
    assert not reason or adapter.explain(reason).endswith(".")


def test_every_reason_is_a_whole_sentence_and_an_unknown_one_is_itself(adapter: CodexAdapter) -> None:
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in SENTENCES.values())
    assert adapter.explain("something_else") == "something_else"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("turn not found: 01a2", "turn_not_found"),
        ("lastTurnId '01a2' was not found in the source thread", "turn_not_found"),
        ("lastTurnId 'rollout-3' is not a persisted canonical turn in the source thread", "turn_id_synthesized"),
        ("lastTurnId '01a2' identifies an in-progress turn", "turn_in_progress"),
        ("no rollout found for thread id 01a2", "source_transcript_missing"),
        ("session 01a2 is archived. Run `codex unarchive 01a2` to unarchive it first.", "source_archived"),
        ("Invalid request: missing field `threadId`", "request_refused"),
        ("invalid paginated history lineage for 01a2: missing source rollout", "source_damaged"),
        ("failed to prepare paginated fork: expected ordinal 12, got 11", ""),
        ("internal error", ""),
        ("", ""),
    ],
)
def test_only_answers_known_to_make_nothing_are_a_no(message: str, code: str) -> None:
    assert nothing_made(message) == code

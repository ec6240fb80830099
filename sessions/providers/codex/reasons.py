"""The stable reason codes of this adapter and the sentences that explain them to people."""

from __future__ import annotations

from typing import Final

ATTESTATION_MISSING: Final = "attestation_missing"
CODEX_MISSING: Final = "codex_missing"
CODEX_TOO_OLD: Final = "codex_too_old"
CODEX_START_FAILED: Final = "codex_start_failed"
NO_TURN_ANCHOR: Final = "codex_no_turn_anchor"
HOME_MISSING: Final = "home_missing"
HOME_UNWRITABLE: Final = "home_unwritable"
RUNTIME_CHANGED: Final = "runtime_changed"
TURN_ID_SYNTHESIZED: Final = "turn_id_synthesized"
TURN_UNENDED: Final = "turn_unended"
TURN_UNBOUND: Final = "turn_unbound"
TURN_NOT_FOUND: Final = "turn_not_found"
TURN_IN_PROGRESS: Final = "turn_in_progress"
SOURCE_DAMAGED: Final = "source_damaged"
SOURCE_ARCHIVED: Final = "source_archived"
SOURCE_MISSING: Final = "source_transcript_missing"
CONFIGURATION_BROKEN: Final = "codex_configuration_broken"
REQUEST_REFUSED: Final = "request_refused"
NOT_SENT: Final = "not_sent"
DELIVERY_UNKNOWN: Final = "delivery_unknown"
UNLISTED_ERROR: Final = "unlisted_error"
WRONG_CHILD: Final = "wrong_child"
RIGHTS_WIDENED: Final = "rights_widened"
BIND_CONFLICT: Final = "bind_conflict"
BIND_DAMAGED: Final = "bind_damaged"
BIND_NOT_READABLE: Final = "bind_not_readable"
PREFIX_CHANGED: Final = "inherited_prefix_changed"
NOT_TORN: Final = "not_torn"
CHILD_IN_USE: Final = "child_in_use"

SENTENCES: Final[dict[str, str]] = {
    ATTESTATION_MISSING: "The codex on this runner has not been checked yet.",
    CODEX_MISSING: "No codex program was found on this runner. Install codex, or name it in FORKHOST_CODEX.",
    CODEX_TOO_OLD: "The codex on this runner cannot fork at a turn; version 0.143.0 or newer can.",
    CODEX_START_FAILED: "The codex on this runner does not start.",
    NO_TURN_ANCHOR: "The codex on this runner does not understand at which turn to fork.",
    HOME_MISSING: "The state folder of codex is gone.",
    HOME_UNWRITABLE: "The other state folder could not be written.",
    RUNTIME_CHANGED: "The codex on this runner is no longer the one this fork was prepared for.",
    TURN_ID_SYNTHESIZED: "This turn was recorded by an old codex that gave turns no ids, so codex cannot fork here.",
    TURN_UNENDED: "This turn never ended in the record of codex, so codex refuses to fork here.",
    TURN_UNBOUND: "This turn is not tied to a turn of codex.",
    TURN_NOT_FOUND: "Codex does not know this turn in this session.",
    TURN_IN_PROGRESS: "This turn is still running.",
    SOURCE_DAMAGED: "The record of this session is damaged, so codex cannot be trusted to fork it.",
    SOURCE_ARCHIVED: "This session is archived in codex; unarchive it there first.",
    SOURCE_MISSING: "The record of this session, or of the session it was forked from, is gone.",
    CONFIGURATION_BROKEN: "The configuration of codex cannot be used, or no longer knows where the model is served.",
    REQUEST_REFUSED: "Codex refused the request as it was written.",
    NOT_SENT: "Codex ended before it took the request.",
    DELIVERY_UNKNOWN: "Codex was asked to fork and did not answer; the fork may exist.",
    UNLISTED_ERROR: "Codex answered with an error that does not say whether a fork was made.",
    WRONG_CHILD: "What codex made is not the fork that was asked for.",
    RIGHTS_WIDENED: "The fork may do more than the session it was made from.",
    BIND_CONFLICT: "The other state folder already holds something else under the name of a record of this fork.",
    BIND_DAMAGED: "The record of this fork in the other state folder is damaged, and is left as it is.",
    BIND_NOT_READABLE: "Codex cannot open the fork in the other state folder.",
    PREFIX_CHANGED: "The session was rewound behind the point it was forked at.",
    NOT_TORN: "This is not a broken-off child of this fork.",
    CHILD_IN_USE: "Another session was forked from this child.",
}

# Error replies which, as running them showed, leave no child behind. Every other error leaves that open.
NOTHING_MADE: Final[tuple[tuple[str, str], ...]] = (
    ("identifies an in-progress turn", TURN_IN_PROGRESS),
    ("turn not found: ", TURN_NOT_FOUND),
    ("was not found in the source thread", TURN_NOT_FOUND),
    ("is not a persisted canonical turn in the source thread", TURN_ID_SYNTHESIZED),
    ("no rollout found for thread id ", SOURCE_MISSING),
    ("invalid session id: ", SOURCE_MISSING),
    ("is archived. Run ", SOURCE_ARCHIVED),
    ("invalid paginated history lineage for ", SOURCE_DAMAGED),
    ("failed to read thread: thread-store internal error: failed to read session metadata", SOURCE_DAMAGED),
    ("Invalid request: ", REQUEST_REFUSED),
    ("failed to load configuration: ", CONFIGURATION_BROKEN),
    (" requires experimentalApi capability", REQUEST_REFUSED),
)


def nothing_made(message: str) -> str:
    """The reason code of an error reply that proves that nothing was made, "" for every other."""
    return next((code for text, code in NOTHING_MADE if text in message), "")

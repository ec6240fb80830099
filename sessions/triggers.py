"""The triggers that hold history together when somebody writes past the store, on both databases.

They refuse: an event that leaves a gap, lies beyond its session's ``last_seq``, or is written to a fenced session or to
a log that nobody writes any more; any update of an event; the removal of an event or turn that a session shows; a turn
beyond its session's ``turn_count``; a change of a settled turn, but for its binding until the next turn starts (an empty
binding may be filled later).

Changing a table on SQLite rebuilds it and silently drops its triggers, and rebuilding a table that another trigger
names fails. So they are dropped before every migration and installed after it, and a start checks that they are there.
"""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

EVENT, TURN, LOG, SEGMENT, SESSION = (
    "agent_sessions_event",
    "agent_sessions_turn",
    "agent_sessions_eventlog",
    "agent_sessions_segment",
    "agent_sessions_session",
)
_TABLES = {
    "forkhost_event_insert": EVENT,
    "forkhost_event_update": EVENT,
    "forkhost_event_delete": EVENT,
    "forkhost_turn_insert": TURN,
    "forkhost_turn_update": TURN,
    "forkhost_turn_delete": TURN,
}
EXPECTED = frozenset(_TABLES)

_NOT_WRITABLE = "this log is fenced, not written any more, or its session was not advanced first"
_GAP = "an event would leave a gap in its log"
_EVENT_FIXED = "events are never changed"
_EVENT_SHOWN = "an event that a session shows is never removed"
_TURN_BEYOND = "a turn lies beyond its session, or the session is fenced"
_TURN_FIXED = "a settled turn is never changed"
_TURN_IDENTITY = "a turn never moves and never opens again"
_BINDING_FIXED = "a binding moves forward only until the next turn starts"
_TURN_SHOWN = "a turn that a session shows is never removed"

# Columns of a turn that settle with it; the binding's are not among them.
_SETTLED = ("last_seq", "outcome", "digest", "prompt", "model", "effort", "origin", "usage", "settled_at_unix_ms")
_IDENTITY = ("id", "log_id", "ordinal", "first_seq", "started_at_unix_ms")
_BINDING = ("provider_turn_id", "binding", "binding_state", "binding_reason")


def _differs(columns: tuple[str, ...], different: str, cast: str = "") -> str:
    """A condition: any of ``columns`` differs between OLD and NEW."""
    # jsonb has equality, and text equality is what SQLite stores JSON as.
    return " OR ".join(f'OLD."{name}"{cast} {different} NEW."{name}"{cast}' for name in columns)


def _owner(row: str, condition: str) -> str:
    return (
        f'EXISTS (SELECT 1 FROM "{SESSION}" s WHERE s."log_id" = {row}."log_id"'
        f' AND s."write_fence" IS NULL AND {condition})'
    )


def _shown(row: str, seq: str) -> str:
    return (
        f'EXISTS (SELECT 1 FROM "{SEGMENT}" g WHERE g."log_id" = {row}."log_id"'
        f' AND (g."last_seq" IS NULL OR g."last_seq" >= {row}."{seq}"))'
    )


def _turn_update_refusals(different: str) -> list[tuple[str, str]]:
    """Condition and message of each refusal of a turn's update."""
    later = f'EXISTS (SELECT 1 FROM "{TURN}" t WHERE t."log_id" = OLD."log_id" AND t."ordinal" > OLD."ordinal")'
    filled = "(OLD.\"provider_turn_id\" = '' AND NEW.\"provider_turn_id\" <> '')"
    return [
        (
            f"{_differs(_IDENTITY, different)} OR (OLD.\"phase\" = 'settled' AND NEW.\"phase\" <> 'settled')",
            _TURN_IDENTITY,
        ),
        (f"OLD.\"phase\" = 'settled' AND ({_differs(_SETTLED, different)})", _TURN_FIXED),
        (
            f"OLD.\"phase\" = 'settled' AND ({_differs(_BINDING, different)}) AND {later} AND NOT {filled}",
            _BINDING_FIXED,
        ),
        (
            f'EXISTS (SELECT 1 FROM "{SESSION}" s WHERE s."log_id" = OLD."log_id" AND s."write_fence" IS NOT NULL)',
            _TURN_BEYOND,
        ),
    ]


# SQLite ---------------------------------------------------------------------------------------------------------------


def _sqlite_statements() -> list[str]:
    no_gap = (
        f'EXISTS (SELECT 1 FROM "{EVENT}" e WHERE e."log_id" = NEW."log_id" AND e."seq" = NEW."seq" - 1)'
        f' OR EXISTS (SELECT 1 FROM "{LOG}" l WHERE l."id" = NEW."log_id" AND l."first_seq" = NEW."seq")'
    )
    refusals: dict[str, tuple[str, list[tuple[str, str]]]] = {
        "forkhost_event_insert": (
            "BEFORE INSERT",
            [(f"NOT ({no_gap})", _GAP), (f"NOT {_owner('NEW', 's.last_seq >= NEW.seq')}", _NOT_WRITABLE)],
        ),
        "forkhost_event_update": ("BEFORE UPDATE", [("1", _EVENT_FIXED)]),
        "forkhost_event_delete": ("BEFORE DELETE", [(_shown("OLD", "seq"), _EVENT_SHOWN)]),
        "forkhost_turn_insert": (
            "BEFORE INSERT",
            [(f"NOT {_owner('NEW', 's.turn_count >= NEW.ordinal')}", _TURN_BEYOND)],
        ),
        "forkhost_turn_update": ("BEFORE UPDATE", _turn_update_refusals("IS NOT")),
        "forkhost_turn_delete": ("BEFORE DELETE", [(_shown("OLD", "first_seq"), _TURN_SHOWN)]),
    }
    statements = []
    for name, (moment, conditions) in refusals.items():
        body = " ".join(f"SELECT RAISE(ABORT, '{message}') WHERE {condition};" for condition, message in conditions)
        statements.append(f'CREATE TRIGGER "{name}" {moment} ON "{_TABLES[name]}" FOR EACH ROW BEGIN {body} END')
    return statements


# PostgreSQL -----------------------------------------------------------------------------------------------------------


def _raise(message: str) -> str:
    return f"RAISE EXCEPTION '{message}' USING ERRCODE = 'integrity_constraint_violation';"


def _postgresql_statements() -> list[str]:
    """Inserts and deletes of events are judged once per statement: an import writes hundreds at a time."""
    pieces = 'SELECT n."log_id", min(n."seq") AS low, max(n."seq") AS high, count(*) AS many FROM added n GROUP BY n."log_id"'
    gap = (
        f"EXISTS (SELECT 1 FROM ({pieces}) p WHERE p.many <> p.high - p.low + 1 OR NOT ("
        f'EXISTS (SELECT 1 FROM "{LOG}" l WHERE l."id" = p."log_id" AND l."first_seq" = p.low)'
        f' OR EXISTS (SELECT 1 FROM "{EVENT}" e WHERE e."log_id" = p."log_id" AND e."seq" = p.low - 1)))'
    )
    owned = f"EXISTS (SELECT 1 FROM ({pieces}) p WHERE NOT {_owner('p', 's.last_seq >= p.high')})"
    removed = f"EXISTS (SELECT 1 FROM removed r WHERE {_shown('r', 'seq')})"
    per_statement = {
        "forkhost_event_insert": (
            "AFTER INSERT",
            "REFERENCING NEW TABLE AS added",
            [(gap, _GAP), (owned, _NOT_WRITABLE)],
        ),
        "forkhost_event_delete": ("AFTER DELETE", "REFERENCING OLD TABLE AS removed", [(removed, _EVENT_SHOWN)]),
    }
    per_row = {
        "forkhost_event_update": ("BEFORE UPDATE", [("true", _EVENT_FIXED)]),
        "forkhost_turn_insert": (
            "BEFORE INSERT",
            [(f"NOT {_owner('NEW', 's.turn_count >= NEW.ordinal')}", _TURN_BEYOND)],
        ),
        "forkhost_turn_update": ("BEFORE UPDATE", _turn_update_refusals("IS DISTINCT FROM")),
        "forkhost_turn_delete": ("BEFORE DELETE", [(_shown("OLD", "first_seq"), _TURN_SHOWN)]),
    }
    statements = []
    for name, (moment, transition, conditions) in per_statement.items():
        statements.append(_function(name, conditions, "NULL"))
        statements.append(
            f'CREATE TRIGGER "{name}" {moment} ON "{_TABLES[name]}" {transition}'
            f' FOR EACH STATEMENT EXECUTE FUNCTION "{name}"()'
        )
    for name, (moment, conditions) in per_row.items():
        statements.append(_function(name, conditions, "OLD" if moment.endswith("DELETE") else "NEW"))
        statements.append(
            f'CREATE TRIGGER "{name}" {moment} ON "{_TABLES[name]}" FOR EACH ROW EXECUTE FUNCTION "{name}"()'
        )
    return statements


def _function(name: str, conditions: list[tuple[str, str]], result: str) -> str:
    body = " ".join(f"IF {condition} THEN {_raise(message)} END IF;" for condition, message in conditions)
    return f'CREATE FUNCTION "{name}"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN {result}; END $$'


# Both -----------------------------------------------------------------------------------------------------------------


def install(connection: BaseDatabaseWrapper) -> None:
    """Install all triggers, replacing those that are there; nothing happens before the tables exist."""
    if not set(_TABLES.values()) <= set(connection.introspection.table_names()):
        return
    drop(connection)
    statements = _postgresql_statements() if connection.vendor == "postgresql" else _sqlite_statements()
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def drop(connection: BaseDatabaseWrapper) -> None:
    """Take all triggers away; those that are missing are no error."""
    with connection.cursor() as cursor:
        for name in sorted(EXPECTED):
            if connection.vendor == "postgresql":
                cursor.execute(f'DROP FUNCTION IF EXISTS "{name}"() CASCADE')
            else:
                cursor.execute(f'DROP TRIGGER IF EXISTS "{name}"')


def installed(connection: BaseDatabaseWrapper) -> set[str]:
    """Those of our triggers that are there and on; the start compares with ``EXPECTED``."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'")
        else:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        return {name for (name,) in cursor.fetchall()} & EXPECTED


def before_migration(using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Receiver of ``pre_migrate``."""
    drop(connections[using])


def after_migration(using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Receiver of ``post_migrate``."""
    install(connections[using])

"""The index over the words of events and titles: FTS5 on SQLite, full text of the configuration ``simple`` on PostgreSQL.

Nothing else knows which of the two it is. Words come normalised, so both find the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from sessions.models import SearchDocument
from sessions.places import LAST_SEQ, TITLE, Place, place_of
from sessions.words import PREFIX_LENGTH

TABLE = "agent_sessions_searchdocument"
INDEX = "agent_sessions_search"
_TRIGGERS = ("forkhost_search_insert", "forkhost_search_delete")

# The words lie in the table alone: the index refers to its rows. The words are normalised, so bytes are letters.
_SQLITE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS agent_sessions_search USING fts5("
    "words, content='agent_sessions_searchdocument', content_rowid='id', tokenize='ascii', detail=none,"
    # Beginnings of words have lists of their own, or a common one would be gathered whole before the first is found.
    " prefix='3 4 5 6 7')",
    "CREATE TRIGGER IF NOT EXISTS forkhost_search_insert AFTER INSERT ON agent_sessions_searchdocument BEGIN "
    "INSERT INTO agent_sessions_search(rowid, words) VALUES (NEW.id, NEW.words); END",
    "CREATE TRIGGER IF NOT EXISTS forkhost_search_delete AFTER DELETE ON agent_sessions_searchdocument BEGIN "
    "INSERT INTO agent_sessions_search(agent_sessions_search, rowid, words) VALUES ('delete', OLD.id, OLD.words); END",
)
_POSTGRESQL = (f"CREATE INDEX IF NOT EXISTS {INDEX} ON {TABLE} USING gin (to_tsvector('simple', words))",)


def install(on: BaseDatabaseWrapper) -> None:
    """Make the index where it is missing; nothing happens before its table exists."""
    if TABLE not in on.introspection.table_names():
        return
    with on.cursor() as cursor:
        for statement in _POSTGRESQL if on.vendor == "postgresql" else _SQLITE:
            cursor.execute(statement)


def drop_triggers(on: BaseDatabaseWrapper) -> None:
    """Take away what would break the rebuilding of a table on SQLite."""
    if on.vendor == "sqlite":
        with on.cursor() as cursor:
            for name in _TRIGGERS:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")


def before_migration(using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Receiver of ``pre_migrate``."""
    drop_triggers(connections[using])


def after_migration(using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Receiver of ``post_migrate``."""
    install(connections[using])


def matches(words: Sequence[str], any_of: Collection[str], limit: int, below: int | None = None) -> list[int]:
    """The numbers of the newest places, below ``below``, that hold all of ``words`` and, if given, one of ``any_of``.

    A word of three or more letters may go on. All words have to be normalised: nothing else is safe here.
    """
    if not words:
        return []
    condition = ("{row} < %s", [below]) if below is not None else ("", [])
    return _matches(_query(words, any_of), *condition, order="DESC", limit=limit)


def first_seq(words: Sequence[str], any_of: Collection[str], log_id: int) -> int:
    """The first seq of the log, behind its title, that holds the words; 0 when none does."""
    bounds = [Place(log_id, TITLE).number, Place(log_id, LAST_SEQ).number]
    found = _matches(_query(words, any_of), "{row} > %s AND {row} <= %s", bounds, order="ASC", limit=1)
    return place_of(found[0]).seq if found else TITLE


def _matches(query: str, condition: str, bounds: Sequence[int], *, order: str, limit: int) -> list[int]:
    if connection.vendor == "postgresql":
        statement = f"SELECT id FROM {TABLE} WHERE to_tsvector('simple', words) @@ to_tsquery('simple', %s)"  # noqa: S608
        # A sum is in no index: the planner must not walk all documents by id, newest first, computing their words.
        row, key = "id", "id + 0"
    else:
        statement = f"SELECT rowid FROM {INDEX} WHERE {INDEX} MATCH %s"  # noqa: S608
        row = key = "rowid"
    if condition:
        statement += " AND " + condition.format(row=row)
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} ORDER BY {key} {order} LIMIT %s", [query, *bounds, limit])
        return [number for (number,) in cursor.fetchall()]


def _query(words: Sequence[str], any_of: Collection[str]) -> str:
    """The databases' own languages, in which our words are always quoted and never anything but letters and digits."""
    postgresql = connection.vendor == "postgresql"
    quote, goes_on, both, either = ("'", ":*", " & ", " | ") if postgresql else ('"', "*", " AND ", " OR ")
    parts = [f"{quote}{word}{quote}{goes_on if len(word) >= PREFIX_LENGTH else ''}" for word in words]
    if any_of:
        parts.append(f"({either.join(f'{quote}{word}{quote}' for word in sorted(any_of))})")
    return both.join(parts)


def forget_events(log_id: int, after: int) -> None:
    """Remove the words of the log's events beyond ``after``; its title stays."""
    first, last = Place(log_id, max(after, TITLE)).number, Place(log_id, LAST_SEQ).number
    SearchDocument.objects.filter(pk__gt=first, pk__lte=last).delete()


def forget_titles(log_ids: Collection[int]) -> None:
    """Remove the titles of the sessions that wrote to these logs."""
    SearchDocument.objects.filter(pk__in=[Place(log_id, TITLE).number for log_id in log_ids]).delete()

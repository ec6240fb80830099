"""What the search index is made of in each database: FTS5 on SQLite, GIN over ``tsvector`` on PostgreSQL.

Django's migrations know the table of documents alone; the rest is made here, after them.
"""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from sessions.places import LAST_SEQ, SEQ_BITS

TABLE = "agent_sessions_searchdocument"
INDEX = "agent_sessions_search"
LOGS_FUNCTION = "agent_sessions_search_logs"
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
# Windows of logs by the bits of a log's number that they leave out: 256 logs, and each next one eight times as many.
WINDOWS = (8, 11, 14, 17)
_WINDOW_WORDS = ", ".join(f"'@{level}:' || (id >> {SEQ_BITS + bits})::text" for level, bits in enumerate(WINDOWS))
# An expression and no column: the words would lie in the table a second time, and most of them are never read.
VECTOR = f"array_to_tsvector(array_remove(string_to_array(words, ' '), '') || ARRAY[{_WINDOW_WORDS}])"
_SEQ = f"(id & {LAST_SEQ})"
_POSTGRESQL = (
    # Every search reads what waits to be sorted into the index, so only a little may wait.
    f"CREATE INDEX IF NOT EXISTS {INDEX} ON {TABLE} USING gin (({VECTOR})) WITH (gin_pending_list_limit = 256)",
    # The planner takes working out a long vector for free, and would rather do so for all of them than ask the index.
    f"CREATE OR REPLACE FUNCTION {LOGS_FUNCTION}(wanted tsquery, most_places integer, most_logs integer) "  # noqa: S608
    "RETURNS TABLE (log_id bigint, titles bigint, first_seq bigint, places bigint) LANGUAGE sql STABLE "
    "SET enable_seqscan = off SET enable_indexscan = off SET max_parallel_workers_per_gather = 0 SET work_mem = '32MB' AS "
    f"$$ SELECT id >> {SEQ_BITS}, count(*) FILTER (WHERE {_SEQ} = 0), min({_SEQ}) FILTER (WHERE {_SEQ} > 0), count(*) "
    f"FROM (SELECT id FROM {TABLE} WHERE {VECTOR} @@ wanted LIMIT most_places) AS found "
    "GROUP BY 1 ORDER BY 1 DESC LIMIT most_logs $$",
)


def window_word(level: int, window: int) -> str:
    """The word of all documents in that window of logs, which no text has; ``level`` counts in ``WINDOWS``."""
    return f"@{level}:{window}"


def install(on: BaseDatabaseWrapper) -> None:
    """Make the index where it is missing; nothing happens before its table exists."""
    if TABLE not in on.introspection.table_names():
        return
    with on.cursor() as cursor:
        for statement in _POSTGRESQL if on.vendor == "postgresql" else _SQLITE:
            cursor.execute(statement)


def is_whole(on: BaseDatabaseWrapper) -> bool:
    """Whether the index and what fills it are there; where a migration broke off, words that come are not found."""
    if on.vendor == "postgresql":
        wanted = {INDEX, LOGS_FUNCTION}
        there = "SELECT relname FROM pg_class UNION ALL SELECT proname FROM pg_proc"
    else:
        wanted = {INDEX, *_TRIGGERS}
        there = "SELECT name FROM sqlite_master"
    with on.cursor() as cursor:
        cursor.execute(there)
        return wanted <= {name for (name,) in cursor.fetchall()}


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

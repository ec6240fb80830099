"""Asking the index over the words of events and titles which logs hold them.

Words come normalised, and neither database breaks them up again, so both find the same. A word that is nearly everywhere
must not take longer than a rare one, and nobody needs all of its places; each database has its own way to the newest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import connection

from sessions import search_on_postgresql, search_on_sqlite
from sessions.models import SearchDocument
from sessions.places import LAST_SEQ, TITLE, Place
from sessions.search_matches import Matches


def logs_holding(words: Sequence[str], any_of: Collection[str], most: int) -> Matches:
    """The newest logs, at most ``most``, with all of ``words`` and, if given, one of ``any_of`` in one event or title.

    A word of ``PREFIX_LENGTH`` letters or more may go on. All words have to be normalised, so nothing but letters and
    digits: they are put into the databases' own query languages.
    """
    if not words:
        return Matches([], True)
    if connection.vendor == "postgresql":
        return search_on_postgresql.logs_holding(words, any_of, most)
    return search_on_sqlite.logs_holding(words, any_of, most)


def forget_events(log_id: int, after: int) -> None:
    """Remove the words of the log's events beyond ``after``; its title stays."""
    first, last = Place(log_id, max(after, TITLE)).number, Place(log_id, LAST_SEQ).number
    SearchDocument.objects.filter(pk__gt=first, pk__lte=last).delete()


def forget_titles(log_ids: Collection[int]) -> None:
    """Remove the titles of the sessions that wrote to these logs."""
    SearchDocument.objects.filter(pk__in=[Place(log_id, TITLE).number for log_id in log_ids]).delete()

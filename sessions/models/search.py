"""What the search index knows. Written by ``sessions.indexing`` and removed by a purge, never by an import."""

from __future__ import annotations

from django.db import models


class SearchDocument(models.Model):
    """The words of one event, once however many sessions show it, or of one session's title.

    ``id`` is the place itself (``sessions.places``): the log's id and the seq in it; seq 0 holds the title of the session
    that writes to the log. ``words`` are normalised (``sessions.words``) and begin with the workspace's own word.
    The index over them belongs to the database (``sessions.search_schema``).
    """

    id = models.BigIntegerField(primary_key=True)
    words = models.TextField()

    def __str__(self) -> str:
        return f"words at {self.pk}"

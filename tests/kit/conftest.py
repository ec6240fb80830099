"""A table of nothing but leased rows, so that the kit is tested without a domain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from forkhost.kit.leased_rows import LeasedRow

# The lock of one file has no like on PostgreSQL.
collect_ignore = [] if connection.vendor == "sqlite" else ["test_sqlite_turns.py"]


class Job(LeasedRow):
    """A piece of work."""

    class Meta(LeasedRow.Meta):
        abstract = False
        app_label = "kit_tests"


@pytest.fixture
def jobs(transactional_db: None) -> Iterator[type[Job]]:
    """The table of :class:`Job`, empty."""
    with connection.schema_editor() as editor:
        editor.create_model(Job)
    yield Job
    with connection.schema_editor() as editor:
        editor.delete_model(Job)

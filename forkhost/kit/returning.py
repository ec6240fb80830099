"""An update that says what it made of the row, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections, models
from django.db.models.sql import UpdateQuery


def update_returning(rows: models.QuerySet[Any], fields: Sequence[str], **values: Any) -> tuple[Any, ...] | None:
    """Update the one row of ``rows`` and return its ``fields`` as they are now; None when there was no row.

    ``rows`` filters by its own table's columns alone and names at most one row. ``fields`` are numbers and texts, which
    both databases return as Python has them.
    """
    query: UpdateQuery = rows.query.chain(UpdateQuery)  # type: ignore[assignment]
    query.add_update_values(values)
    connection = connections[rows.db]
    statement, parameters = query.get_compiler(connection=connection).as_sql()
    columns = ", ".join(connection.ops.quote_name(rows.model._meta.get_field(name).column) for name in fields)
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} RETURNING {columns}", parameters)
        found: tuple[Any, ...] | None = cursor.fetchone()
    return found

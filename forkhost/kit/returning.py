"""An update that says what it made of the row, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections, models
from django.db.models.sql import UpdateQuery


def update_returning(rows: models.QuerySet[Any], fields: Sequence[str], **values: Any) -> tuple[Any, ...] | None:
    """Update the one row of ``rows`` and return its ``fields`` as they are now; None when there was no row.

    ``rows`` filters by its own table's columns alone and names at most one row.
    """
    query: UpdateQuery = rows.query.chain(UpdateQuery)  # type: ignore[assignment]
    query.add_update_values(values)
    connection = connections[rows.db]
    compiler = query.get_compiler(connection=connection)
    statement, parameters = compiler.as_sql()
    table = rows.model._meta.db_table
    columns = [rows.model._meta.get_field(name).get_col(table) for name in fields]
    names = ", ".join(connection.ops.quote_name(column.target.column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} RETURNING {names}", parameters)
        found = cursor.fetchone()
    return None if found is None else tuple(*compiler.apply_converters([found], compiler.get_converters(columns)))

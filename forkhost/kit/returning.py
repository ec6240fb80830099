"""An update that says what it made of the row, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections, models
from django.db.models.sql import UpdateQuery


def update_returning(rows: models.QuerySet[Any], only: Sequence[str] = (), **values: Any) -> Any:
    """Update the one row of ``rows`` and return its object as it is now, with all fields or ``only`` some.

    None when there was no row. ``rows`` filters by its own table's columns alone and names at most one row.
    """
    query: UpdateQuery = rows.query.chain(UpdateQuery)  # type: ignore[assignment]
    query.add_update_values(values)
    connection = connections[rows.db]
    compiler = query.get_compiler(connection=connection)
    statement, parameters = compiler.as_sql()
    model = rows.model
    fields = [field for field in model._meta.concrete_fields if not only or field.name in only]
    names = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} RETURNING {names}", parameters)
        found = cursor.fetchone()
    if found is None:
        return None
    columns = [field.get_col(model._meta.db_table) for field in fields]
    (read,) = compiler.apply_converters([found], compiler.get_converters(columns))
    return model.from_db(rows.db, [field.attname for field in fields], read)

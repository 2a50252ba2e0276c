# SPDX-License-Identifier: Apache-2.0
"""Pure. `INSERT … ON CONFLICT`, which SQLite and PostgreSQL write alike."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

Insert = postgresql.Insert | sqlite.Insert


def insert_into(connection: sa.Connection, table: sa.Table) -> Insert:
    """An INSERT into `table` for the database of `connection`."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def adding(
    connection: sa.Connection, table: sa.Table, sums: Sequence[str], largest: Sequence[str] = ()
) -> Insert:
    """An INSERT that adds to the row of the same primary key.

    The columns `sums` are added up; of those in `largest` the larger value stays.
    """
    statement = insert_into(connection, table)
    new = statement.excluded
    values: dict[str, sa.ColumnElement[int]] = {}
    for name in sums:
        values[name] = table.c[name] + new[name]
    for name in largest:
        values[name] = sa.case((new[name] > table.c[name], new[name]), else_=table.c[name])
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=values
    )

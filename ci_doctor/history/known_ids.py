# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: the numbers of tests, causes, commits and branches, made as they are needed.

A number once made stays: nothing deletes these rows, so a process may remember them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ci_doctor.history.upsert import insert_into, insert_rows

# Of two columns each: below the 32,766 parameters of one statement in SQLite.
_CHUNK: Final = 5_000
Key = tuple[str, ...]


class KnownIds:
    """The numbers of the rows of one table by their natural key.

    rest: the values of the other columns of a new row.
    """

    def __init__(self, table: sa.Table, columns: Sequence[str]) -> None:
        self._table = table
        self._names = tuple(columns)
        self._columns = [table.c[name] for name in columns]
        self._ids: dict[Key, int] = {}

    def of(
        self,
        connection: sa.Connection,
        keys: Iterable[Key],
        rest: dict[Key, dict[str, Any]] | None = None,
    ) -> dict[Key, int]:
        """The number of each key, and of all those asked for earlier."""
        # In one order everywhere: two writers that wait for each other's rows would wait for ever.
        unknown = sorted({key for key in keys if key not in self._ids})
        for chunk in _chunks(unknown):
            self._look_up(connection, chunk)
            missing = [key for key in chunk if key not in self._ids]
            if missing:
                rows = [self._row(key, rest) for key in missing]
                statement = insert_into(connection, self._table).on_conflict_do_nothing()
                insert_rows(connection, statement, rows)
                self._look_up(connection, missing)
        return self._ids

    def _row(self, key: Key, rest: dict[Key, dict[str, Any]] | None) -> dict[str, Any]:
        row: dict[str, Any] = dict(zip(self._names, key, strict=True))
        if rest is not None:
            row.update(rest[key])
        return row

    def _look_up(self, connection: sa.Connection, keys: Sequence[Key]) -> None:
        if len(self._columns) == 1:
            condition = self._columns[0].in_([key[0] for key in keys])
        else:
            condition = sa.tuple_(*self._columns).in_(keys)
        query = sa.select(self._table.c.id, *self._columns).where(condition)
        for number, *key in connection.execute(query):
            self._ids[tuple(key)] = number


def _chunks(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]

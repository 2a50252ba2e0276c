# SPDX-License-Identifier: Apache-2.0
"""Reads a database: what is known of jobs whose attempts are counted already.

The sums by branch, commit and step count an attempt when it is written. What a later file adds to its
job does not move it.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa

from ci_doctor.history.schema import JOB

_CONTEXT: Final = ("branch_id", "commit_id", "step")
_CHUNK: Final = 5_000
Context = Mapping[str, Any]


def contexts(connection: sa.Connection, keys: Collection[str]) -> dict[str, Context]:
    """Branch, commit and step of those jobs that have attempts and lack one of the three."""
    ordered = sorted(keys)
    columns = [JOB.c[name] for name in _CONTEXT]
    known: dict[str, Context] = {}
    for start in range(0, len(ordered), _CHUNK):
        query = sa.select(JOB.c.key, *columns).where(
            JOB.c.key.in_(ordered[start : start + _CHUNK]),
            sa.or_(*(column.is_(None) for column in columns)),
            JOB.c.passed + JOB.c.failed + JOB.c.infra > 0,
        )
        rows = connection.execute(query).mappings()
        known |= {row["key"]: dict(row) for row in rows}
    return known


def late_jobs(before: Mapping[str, Context], after: Mapping[str, Context]) -> Iterator[str]:
    """The keys of jobs of which something is known only now."""
    for key, earlier in before.items():
        if any(earlier[name] is None and after[key][name] is not None for name in _CONTEXT):
            yield key

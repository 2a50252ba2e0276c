# SPDX-License-Identifier: Apache-2.0
"""Acts on files: all attempts as one Parquet file, for DuckDB, ClickHouse or pandas."""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import AttemptOutcome
from ci_doctor.history.schema import ATTEMPT, BRANCH, CAUSE, COMMITS, JOB, TEST
from ci_doctor.history.window import HistoryWindow

_ROWS: Final = 50_000
_NAMES: Final = [outcome.name.lower() for outcome in AttemptOutcome]
_SCHEMA: Final = pa.schema(
    [
        ("suite", pa.string()),
        ("name", pa.string()),
        ("started_at", pa.timestamp("ms", tz="UTC")),
        ("number", pa.int32()),
        ("outcome", pa.string()),
        ("duration_ms", pa.int64()),
        ("pipeline", pa.string()),
        ("build", pa.int64()),
        ("step", pa.string()),
        ("job", pa.string()),
        ("branch", pa.string()),
        ("commit", pa.string()),
        ("agent", pa.string()),
        ("queue", pa.string()),
        ("gpus", pa.int32()),
        ("cause", pa.string()),
        ("cause_title", pa.string()),
    ]
)


def export_parquet(connection: sa.Connection, window: HistoryWindow, path: Path) -> int:
    """Write the attempts of the window, by test and time; how many there are.

    The file appears whole, or not at all. Raises UsageError if it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        count = _write(connection, window, temporary)
        temporary.replace(path)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", hint="name a file in a folder"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _write(connection: sa.Connection, window: HistoryWindow, path: Path) -> int:
    count = 0
    rows = connection.execution_options(yield_per=_ROWS).execute(_query(window))
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        for part in rows.partitions():
            columns: list[list[Any]] = list(map(list, zip(*part, strict=True)))
            columns[4] = [_NAMES[outcome] for outcome in columns[4]]
            arrays = [
                pa.array(column, type=field.type)
                for column, field in zip(columns, _SCHEMA, strict=True)
            ]
            writer.write_table(pa.table(arrays, schema=_SCHEMA))
            count += len(part)
    return count


def _query(window: HistoryWindow) -> sa.Select[Any]:
    query = (
        sa.select(
            TEST.c.suite,
            TEST.c.name,
            ATTEMPT.c.started_ms,
            ATTEMPT.c.number,
            ATTEMPT.c.outcome,
            ATTEMPT.c.duration_ms,
            JOB.c.pipeline,
            JOB.c.build,
            JOB.c.step,
            JOB.c.key,
            BRANCH.c.name,
            COMMITS.c.sha,
            JOB.c.agent,
            JOB.c.queue,
            JOB.c.gpus,
            CAUSE.c.fingerprint,
            CAUSE.c.title,
        )
        .select_from(ATTEMPT)
        .join(TEST, TEST.c.id == ATTEMPT.c.test_id)
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .outerjoin(BRANCH, BRANCH.c.id == JOB.c.branch_id)
        .outerjoin(COMMITS, COMMITS.c.id == JOB.c.commit_id)
        .outerjoin(CAUSE, CAUSE.c.id == ATTEMPT.c.cause_id)
        .where(ATTEMPT.c.started_ms.between(window.since_ms, window.until_ms))
        .order_by(ATTEMPT.c.test_id, ATTEMPT.c.started_ms)
    )
    if window.branch is not None:
        query = query.where(BRANCH.c.name == window.branch)
    return query

# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: writes evidence in batches, each in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.database import (
    ALL_BRANCHES,
    ATTEMPT,
    BRANCH,
    CAUSE,
    COMMITS,
    DAY_MS,
    JOB,
    SOURCE,
    TEST,
    TEST_COMMIT,
    TEST_DAY,
    UNKNOWN_BRANCH,
    UNKNOWN_STEP,
    adding,
    chunks,
    insert_into,
    insert_rows,
    writing,
)
from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    EvidenceFile,
    parts_of,
)

# --- the attempts of a batch -> rows of attempts, and what they add to the sums ---

Row = dict[str, Any]
_PASSED: Final = 0
_FAILED: Final = 1
_INFRA: Final = 2
# The place of an outcome in [passed, failed, infra]; a skip counts nowhere.
_PLACE: Final[dict[int, int]] = {
    AttemptOutcome.PASSED: _PASSED,
    AttemptOutcome.FAILED: _FAILED,
    AttemptOutcome.ERROR: _FAILED,
    AttemptOutcome.INFRA: _INFRA,
}


class FileNumbers(Struct, frozen=True, kw_only=True):
    """The numbers that all attempts of a file share. branch, step: UNKNOWN_… if not known."""

    source: int
    job: int
    branch: int
    commit: int | None
    step: str


class BatchSums:
    """What a batch adds, row by row."""

    def __init__(self) -> None:
        self.attempts: list[Row] = []
        self._days: dict[tuple[int, int, int], list[int]] = {}
        self._commits: dict[tuple[int, int, str], list[int]] = {}

    def add(
        self, numbers: FileNumbers, test: int, cause: int | None, attempt: AttemptEvidence
    ) -> None:
        """Count one attempt of a test."""
        started = attempt.started_ms or 0
        self.attempts.append(
            {
                "test_id": test,
                "started_ms": started,
                "source_id": numbers.source,
                "number": attempt.number,
                "job_id": numbers.job,
                "outcome": int(attempt.outcome),
                "duration_ms": attempt.duration_ms,
                "cause_id": cause,
            }
        )
        self.count(numbers, test, started, attempt.outcome, attempt.duration_ms or 0)

    def count(
        self,
        numbers: FileNumbers,
        test: int,
        started: int,
        outcome: int,
        duration: int,
        *,
        times: int = 1,
    ) -> None:
        """Count an attempt `times` times, -1 to take it back: both in milliseconds."""
        place = _PLACE.get(outcome)
        if place is None:
            return
        number = started // DAY_MS
        for branch in (ALL_BRANCHES, numbers.branch):
            day = self._days.setdefault((branch, number, test), [0, 0, 0, 0])
            day[place] += times
            day[3] += times * duration
        if numbers.commit is not None:
            commit = self._commits.setdefault((numbers.commit, test, numbers.step), [0, 0, 0, 0])
            commit[place] += times
            commit[3] = max(commit[3], started)

    def attempt_rows(self) -> list[Row]:
        """The attempts in the order of their table, which writes each of its pages once."""
        return sorted(self.attempts, key=lambda row: (row["test_id"], row["started_ms"]))

    def day_rows(self) -> list[Row]:
        """Rows for `test_day`, in the order of its key."""
        return _rows(TEST_DAY, self._days)

    def commit_rows(self) -> list[Row]:
        """Rows for `test_commit`, in the order of its key."""
        return _rows(TEST_COMMIT, self._commits)


def _rows(table: sa.Table, sums: Mapping[Any, list[int]]) -> list[Row]:
    """The columns of both tables are those of the key, and then the sums."""
    names = table.columns.keys()
    return [dict(zip(names, (*key, *each), strict=True)) for key, each in sorted(sums.items())]


def outcome_counts(attempts: Iterable[AttemptEvidence]) -> list[int]:
    """How many passed, failed, and failed for a reason outside."""
    counts = [0, 0, 0]
    for attempt in attempts:
        place = _PLACE.get(attempt.outcome)
        if place is not None:
            counts[place] += 1
    return counts


# --- the numbers of tests, causes, commits and branches, made as they are needed ---
# A number once made stays: nothing deletes these rows, so a process may remember them.

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
        for chunk in chunks(unknown):
            self._look_up(connection, chunk)
            missing = [key for key in chunk if key not in self._ids]
            if missing:
                rows = [
                    {**dict(zip(self._names, key, strict=True)), **(rest or {}).get(key, {})}
                    for key in missing
                ]
                statement = insert_into(connection, self._table).on_conflict_do_nothing()
                insert_rows(connection, statement, rows)
                self._look_up(connection, missing)
        return self._ids

    def _look_up(self, connection: sa.Connection, keys: Sequence[Key]) -> None:
        if len(self._columns) == 1:
            condition = self._columns[0].in_([key[0] for key in keys])
        else:
            condition = sa.tuple_(*self._columns).in_(keys)
        query = sa.select(self._table.c.id, *self._columns).where(condition)
        for number, *key in connection.execute(query):
            self._ids[tuple(key)] = number


# --- what a later file adds to a job also counts for the attempts that are there already ---
# The sums by branch, commit and step count an attempt when it is written, so they are moved.

CONTEXT: Final = ("branch_id", "commit_id", "step")
_SKIPPED: Final = 3
JobRow = Mapping[str, Any]
DayKeys = set[tuple[int, int, int]]
CommitKeys = set[tuple[int, int, str]]


class LateContext(Struct, frozen=True, kw_only=True):
    """A job of which branch, commit or step is known only now: its rows before and after."""

    before: JobRow
    after: JobRow


def late_context(before: JobRow, said: JobRow) -> LateContext | None:
    """What a file that says `said` adds to the job of the row `before`; None for nothing. Pure."""
    after = {**before, "step": fuller_step(before["step"], said["step"])}
    for name in ("branch_id", "commit_id"):
        if before[name] is None:
            after[name] = said[name]
    return LateContext(before=before, after=after) if after != before else None


def fuller_step(known: str | None, said: str | None) -> str | None:
    """The step with its label, if one of the two has it; else the one that was known first. Pure."""
    if known is None:
        return said
    if said is not None and (said.startswith(f"{known} (") or said.endswith(f" ({known})")):
        return said
    return known


def numbers_of(job: JobRow, source: int = 0) -> FileNumbers:
    """The numbers by which the attempts of a job are counted. Pure."""
    return FileNumbers(
        source=source,
        job=job["id"],
        branch=job["branch_id"] or UNKNOWN_BRANCH,
        commit=job["commit_id"],
        step=job["step"] or UNKNOWN_STEP,
    )


def move_attempts(
    connection: sa.Connection, late: Sequence[LateContext], sums: BatchSums
) -> tuple[DayKeys, CommitKeys]:
    """Add to `sums` what moves the attempts of these jobs that are there already; from which sums.

    It reads the table of attempts from its beginning to its end, once for 5,000 jobs.
    """
    by_job = {each.after["id"]: each for each in late}
    columns = (
        ATTEMPT.c.job_id,
        ATTEMPT.c.test_id,
        ATTEMPT.c.started_ms,
        ATTEMPT.c.outcome,
        ATTEMPT.c.duration_ms,
    )
    days: DayKeys = set()
    commits: CommitKeys = set()
    for chunk in chunks(sorted(by_job)):
        query = sa.select(*columns).where(
            ATTEMPT.c.job_id.in_(chunk), ATTEMPT.c.outcome != _SKIPPED
        )
        for job, test, started, outcome, duration in connection.execute(query):
            before = numbers_of(by_job[job].before)
            after = numbers_of(by_job[job].after)
            sums.count(before, test, started, outcome, duration or 0, times=-1)
            sums.count(after, test, started, outcome, duration or 0)
            days.add((before.branch, started // DAY_MS, test))
            if before.commit is not None:
                commits.add((before.commit, test, before.step))
    return days, commits


def tidy_sums(connection: sa.Connection, days: DayKeys, commits: CommitKeys) -> None:
    """Remove those of these sums that count nothing any more; make the last times of the others true.

    Their rows are locked already, so that no writer waits for another one in a circle.
    """
    for table, keys in ((TEST_DAY, sorted(days)), (TEST_COMMIT, sorted(commits))):
        if keys:
            nothing = [table.c[name] == 0 for name in ("passed", "failed", "infra")]
            connection.execute(
                sa.delete(table).where(*_by_key(table), *nothing), _key_names(table, keys)
            )
    if commits:
        statement = sa.update(TEST_COMMIT).where(*_by_key(TEST_COMMIT)).values(last_ms=_last_ms())
        connection.execute(statement, _key_names(TEST_COMMIT, sorted(commits)))


def _by_key(table: sa.Table) -> list[sa.ColumnElement[bool]]:
    return [column == sa.bindparam(f"key_{column.name}") for column in table.primary_key]


def _key_names(table: sa.Table, keys: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    names = [f"key_{column.name}" for column in table.primary_key]
    return [dict(zip(names, key, strict=True)) for key in keys]


def _last_ms() -> sa.ScalarSelect[Any]:
    """When the last attempt of a row of TEST_COMMIT began."""
    return (
        sa.select(sa.func.max(ATTEMPT.c.started_ms))
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .where(
            ATTEMPT.c.test_id == TEST_COMMIT.c.test_id,
            ATTEMPT.c.outcome != _SKIPPED,
            JOB.c.commit_id == TEST_COMMIT.c.commit_id,
            sa.func.coalesce(JOB.c.step, UNKNOWN_STEP) == TEST_COMMIT.c.step,
        )
        .scalar_subquery()
    )


# --- writes evidence in batches, each in one transaction ---
# A file that is there already adds nothing: its hash is unique. A batch is written whole or not at
# all, so a writer that is killed leaves neither half a file nor one that counts twice.

_SUMS: Final = ("passed", "failed", "infra")
_JOB_FACTS: Final = (
    "pipeline",
    "build",
    *CONTEXT,
    "agent",
    "queue",
    "gpus",
    "cause_id",
)


class WrittenBatch(Struct, frozen=True, kw_only=True):
    """What came in: files that were not there, their attempts, and files that were.

    late_jobs: keys of jobs whose earlier attempts got a branch, a commit or a step.
    """

    files: int
    attempts: int
    known_files: int
    late_jobs: tuple[str, ...] = ()


class EvidenceWriter:
    """Writes to one database, and remembers the numbers of what it has met."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._tests = KnownIds(TEST, ("suite", "name"))
        self._causes = KnownIds(CAUSE, ("fingerprint",))
        self._commits = KnownIds(COMMITS, ("sha",))
        self._branches = KnownIds(BRANCH, ("name",))

    def write(self, files: Sequence[EvidenceFile], now_ms: int) -> WrittenBatch:
        """Write those of `files` that are new, in one transaction."""
        with writing(self._engine) as connection:
            sources = _new_sources(connection, files, now_ms)
            unique = {file.sha256: file for file in files}
            new = [file for sha256, file in unique.items() if sha256 in sources]
            late = self._write_new(connection, new, sources)
        attempts = sum(len(file.attempts) for file in new)
        return WrittenBatch(
            files=len(new),
            attempts=attempts,
            known_files=len(files) - len(new),
            late_jobs=late,
        )

    def _write_new(
        self, connection: sa.Connection, files: Sequence[EvidenceFile], sources: dict[str, int]
    ) -> tuple[str, ...]:
        tests = self._tests.of(
            connection, {(each.suite, each.name) for file in files for each in file.attempts}
        )
        causes = self._cause_ids(connection, files)
        jobs, late = self._write_jobs(connection, files, causes)
        sums = BatchSums()
        # Before the attempts of this batch, which are counted as they are known now.
        taken = move_attempts(connection, late, sums)
        for file in files:
            for job, attempts in parts_of(file):
                numbers = numbers_of(jobs[job.key or ""], sources[file.sha256])
                for attempt in attempts:
                    cause = None
                    if attempt.cause is not None:
                        cause = causes[attempt.cause.fingerprint,]
                    sums.add(numbers, tests[attempt.suite, attempt.name], cause, attempt)
        insert_rows(connection, insert_into(connection, ATTEMPT), sums.attempt_rows())
        by_day = adding(connection, TEST_DAY, (*_SUMS, "duration_ms"))
        insert_rows(connection, by_day, sums.day_rows())
        by_commit = adding(connection, TEST_COMMIT, _SUMS, ("last_ms",))
        insert_rows(connection, by_commit, sums.commit_rows())
        tidy_sums(connection, *taken)
        return tuple(each.after["key"] for each in late)

    def _cause_ids(
        self, connection: sa.Connection, files: Sequence[EvidenceFile]
    ) -> dict[tuple[str, ...], int]:
        rest: dict[tuple[str, ...], dict[str, Any]] = {}
        for file in files:
            for cause in (file.job.cause, *(each.cause for each in file.attempts)):
                if cause is not None:
                    rest.setdefault(
                        (cause.fingerprint,), {"title": cause.title, "class": cause.class_}
                    )
        return self._causes.of(connection, rest, rest)

    def _write_jobs(
        self,
        connection: sa.Connection,
        files: Sequence[EvidenceFile],
        causes: dict[tuple[str, ...], int],
    ) -> tuple[dict[str, Row], list[LateContext]]:
        """Add what the files say of their jobs; the rows of these jobs by key, and what came late."""
        rows = self._job_rows(connection, files, causes)
        if not rows:
            return {}, []
        statement = _job_upsert(connection)
        returned = connection.execute(statement, list(rows.values())).mappings()
        jobs: dict[str, Row] = {row["key"]: dict(row) for row in returned}
        late = [late_context(jobs[key], said) for key, said in rows.items()]
        changed = [each for each in late if each is not None]
        for each in changed:
            # The row is locked by this transaction.
            values = {name: each.after[name] for name in CONTEXT}
            connection.execute(sa.update(JOB).where(JOB.c.id == each.after["id"]).values(values))
            jobs[each.after["key"]] = dict(each.after)
        # Those of which attempts were counted before these files.
        had_attempts = [
            each
            for each in changed
            if any(each.after[name] > rows[each.after["key"]][name] for name in _SUMS)
        ]
        return jobs, had_attempts

    def _job_rows(
        self,
        connection: sa.Connection,
        files: Sequence[EvidenceFile],
        causes: dict[tuple[str, ...], int],
    ) -> dict[str, Row]:
        """The rows of the jobs by key, each from all files that speak of the job."""
        commits = self._commits.of(connection, _single_keys(file.job.commit for file in files))
        branches = self._branches.of(connection, _single_keys(file.job.branch for file in files))
        rows: dict[str, Row] = {}
        parts = [part for file in files for part in parts_of(file)]
        for job, attempts in sorted(parts, key=lambda part: part[0].key or ""):
            row = {
                "key": job.key or "",
                "pipeline": job.pipeline,
                "build": job.build,
                "step": job.step,
                "agent": job.agent,
                "queue": job.queue,
                "gpus": job.gpus,
                "started_ms": job.started_ms or 0,
                "duration_ms": job.duration_ms,
            }
            row["commit_id"] = commits[job.commit,] if job.commit else None
            row["branch_id"] = branches[job.branch,] if job.branch else None
            row["cause_id"] = causes[job.cause.fingerprint,] if job.cause else None
            row.update(zip(_SUMS, outcome_counts(attempts), strict=True))
            key = job.key or ""
            rows[key] = _together(rows[key], row) if key in rows else row
        return rows


def _new_sources(
    connection: sa.Connection, files: Sequence[EvidenceFile], now_ms: int
) -> dict[str, int]:
    """The numbers of the files that were not there, by hash."""
    rows = [
        {
            "sha256": file.sha256,
            "place": file.place,
            "form": file.form,
            "attempts": len(file.attempts),
            "ingested_ms": now_ms,
        }
        for _, file in sorted({each.sha256: each for each in files}.items())
    ]
    if not rows:
        return {}
    statement = insert_into(connection, SOURCE).on_conflict_do_nothing()
    returned = connection.execute(statement.returning(SOURCE.c.id, SOURCE.c.sha256), rows)
    return {row.sha256: row.id for row in returned}


def _single_keys(names: Iterable[str | None]) -> set[tuple[str, ...]]:
    return {(name,) for name in names if name}


def _together(first: Row, second: Row) -> Row:
    """Two rows of one job, as the database would put them together."""
    both = dict(first)
    for name in _JOB_FACTS:
        if both[name] is None:
            both[name] = second[name]
    both["step"] = fuller_step(first["step"], second["step"])
    for name in _SUMS:
        both[name] += second[name]
    both["started_ms"] = min(first["started_ms"], second["started_ms"])
    lengths = [row["duration_ms"] for row in (first, second) if row["duration_ms"] is not None]
    both["duration_ms"] = max(lengths, default=None)
    return both


def _job_upsert(connection: sa.Connection) -> Any:
    statement = insert_into(connection, JOB)
    new = statement.excluded
    values: dict[str, Any] = {}
    for name in _JOB_FACTS:
        # The context is as it was: what is added to it moves sums, and only a locked row is sure.
        if name not in CONTEXT:
            values[name] = sa.func.coalesce(JOB.c[name], new[name])
    for name in _SUMS:
        values[name] = JOB.c[name] + new[name]
    values["started_ms"] = sa.case(
        (new.started_ms < JOB.c.started_ms, new.started_ms), else_=JOB.c.started_ms
    )
    longer = sa.or_(JOB.c.duration_ms.is_(None), new.duration_ms > JOB.c.duration_ms)
    values["duration_ms"] = sa.case((longer, new.duration_ms), else_=JOB.c.duration_ms)
    statement = statement.on_conflict_do_update(index_elements=[JOB.c.key], set_=values)
    columns = ("id", "key", *CONTEXT, *_SUMS)
    return statement.returning(*(JOB.c[name] for name in columns))

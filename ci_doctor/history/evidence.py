# SPDX-License-Identifier: Apache-2.0
"""Pure. What evidence files hold: a job and the attempts of its tests, with their times and names."""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.model.cause import Cause, fingerprint
from ci_doctor.model.facts.build import JOB_FILE
from ci_doctor.model.words import moment_text
from ci_doctor.render import REPORT_FILE
from ci_doctor.render.formatting import printable
from ci_doctor.system.secrets.private_keys import first_words

# --- what an evidence file holds: a job, and the attempts of its tests ---


class AttemptOutcome(IntEnum):
    """How one attempt ended. The numbers stand in the database: never change one.

    `INFRA` is a failure or an error whose cause lies outside the change.
    """

    PASSED = 0
    FAILED = 1
    ERROR = 2
    SKIPPED = 3
    INFRA = 4


class AttemptEvidence(Struct, frozen=True, kw_only=True):
    """One execution of a test; `suite` and `name` identify the test from run to run.

    number: from 1, of the executions of this test in this file. started_ms: UTC, milliseconds
    since 1970; None if the file does not say. duration_ms: None if it does not say. row: what tells
    executions of one test apart that are no attempts of each other, as of two browsers; None if nothing need.
    """

    suite: str
    name: str
    outcome: AttemptOutcome
    number: int = 1
    started_ms: int | None = None
    duration_ms: int | None = None
    cause: Cause | None = None
    row: str | None = None


class JobEvidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job in which the attempts ran. What is unknown is None.

    key: identifies the job across files; None until it is known. step: its key. label: of a job that is
    not one of several parallel ones; the jobs of a matrix share a key, and their labels hold its values.
    gpus: the number of
    GPUs on its machine. started_ms: as in AttemptEvidence; duration_ms: wall clock.
    """

    key: str | None = None
    pipeline: str | None = None
    build: int | None = None
    step: str | None = None
    label: str | None = None
    branch: str | None = None
    commit: str | None = None
    agent: str | None = None
    queue: str | None = None
    gpus: int | None = None
    started_ms: int | None = None
    duration_ms: int | None = None
    cause: Cause | None = None


class ParsedEvidence(Struct, frozen=True, kw_only=True):
    """What one file says, without what stands around it.

    form: a word for its format. key: what it is known by; None for the hash of its bytes.
    zoneless_end_ms: when the run ended, with its times read as UTC; None if they have an offset.
    """

    form: str
    key: str | None = None
    job: JobEvidence = JobEvidence()
    attempts: tuple[AttemptEvidence, ...] = ()
    zoneless_end_ms: int | None = None


class EvidenceFile(Struct, frozen=True, kw_only=True):
    """One file, ready to be written: its job has a key, its job and attempts have times.

    sha256: hexadecimal, of the file's bytes; of a report of ours, of what identifies its run. place: its path, for a reader.
    """

    sha256: str
    place: str
    form: str
    job: JobEvidence
    attempts: tuple[AttemptEvidence, ...] = ()


def parts_of(file: EvidenceFile) -> tuple[tuple[JobEvidence, tuple[AttemptEvidence, ...]], ...]:
    """The attempts of a file with their job; those of a row belong to a step of its own.

    What a job costs, and its cause, counts once, with the job itself.
    """
    by_row: dict[str | None, list[AttemptEvidence]] = {None: []}
    for attempt in file.attempts:
        by_row.setdefault(attempt.row, []).append(attempt)
    parts = []
    for row, attempts in by_row.items():
        job = file.job
        if row is not None:
            step = row if job.step is None else f"{job.step} ({row})"
            job = replace(
                job, key=f"{job.key} {row}", step=step, duration_ms=None, gpus=None, cause=None
            )
        parts.append((job, tuple(attempts)))
    return tuple(parts)


class UnreadableEvidence(Struct, frozen=True):
    """A file that may hold evidence, and what is wrong with it."""

    place: str
    problem: str


# --- times in evidence files -> integers: milliseconds, and milliseconds since 1970 in UTC ---

_SECOND: Final = 1000
# Of a duration: a figure above it is a mistake of the file, and no integer of the database.
_MOST_MS: Final = 366 * 86_400 * _SECOND


@lru_cache(maxsize=256)
def test_label(suite: str, name: str) -> str:
    """What a reader calls a test, and what `history test` takes."""
    return f"{suite}::{name}" if suite else name


def moment_ms(text: str | None) -> int | None:
    """The moment of an ISO 8601 text; None if it is none.

    A time without an offset counts as UTC here; `local_time` moves it if it cannot be.
    """
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        return round(parsed.timestamp() * _SECOND)
    except (ValueError, OverflowError):
        return None


def has_offset(text: str) -> bool:
    """Whether an ISO 8601 text, which is a moment, says how far from UTC it is."""
    return datetime.fromisoformat(text).tzinfo is not None


@lru_cache(maxsize=4096)
def milliseconds(seconds: str | float | None) -> int | None:
    """A duration in seconds, as a number or a text; None if it is none.

    `1,234.5` is a duration too, because Surefire groups digits; a group never begins with 0, so the
    comma of `0,123` is a decimal one, as tools write it on German or French machines.
    """
    if seconds is None or isinstance(seconds, bool):
        return None
    try:
        if isinstance(seconds, str):
            seconds = seconds.replace(",", "." if seconds.strip().startswith("0,") else "")
        value = float(seconds)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(value) or value < 0:
        return None
    return min(round(value * _SECOND), _MOST_MS)


def utc_text(moment: int) -> str:
    """RFC 3339 in UTC of a moment."""
    return moment_text(moment / _SECOND)


# --- names from evidence files -> text that both databases take, and an index of theirs too ---

# An entry of PostgreSQL's B-tree has 2,704 bytes at most, and a test has two names of up to four
# bytes a character.
_MOST: Final = 300


def stored_text(text: str) -> str:
    """`text` without control characters, in at most 300 characters.

    A longer one ends with a part of its hash, so that two long ones stay different.
    """
    if len(text) <= _MOST and text.isprintable():
        return text
    cleaned = printable(text)
    if len(cleaned) <= _MOST:
        return cleaned
    digest = hashlib.sha256(cleaned.encode()).hexdigest()[:16]
    return f"{cleaned[: _MOST - 17]}…{digest}"


def stored_name(text: str | None) -> str | None:
    """The same for what may be unknown."""
    return None if text is None else stored_text(text)


# --- the cause of a failed attempt, by the message that its file holds ---

_LONGEST = 200
_RULE = "test/failure"


def cause_of_message(message: str, kind: str = "") -> Cause | None:
    """The cause that the first line of `message` names; None without a message.

    kind: the type of the failure, as JUnit has it. Equal messages up to times, numbers, addresses
    and directories have one fingerprint.
    """
    stripped = message.strip()
    if not stripped:
        return None
    first = first_words(stripped.splitlines()[0], _LONGEST)
    return Cause(fingerprint=fingerprint(_RULE, {}, first, kind), title=first)


# --- parsed evidence -> the same without secrets: a database is for more people than one job's log ---

Hide = Callable[[str], str]
# A label may hold the values of a matrix, a branch and an agent what somebody typed.
_DESCRIBES: Final = ("pipeline", "step", "label", "branch", "agent", "queue")


def without_secrets(parsed: ParsedEvidence, hide: Hide) -> ParsedEvidence:
    """`parsed` with `hide` applied to names of tests, titles of causes and what describes the job."""
    texts = "\n".join(dict.fromkeys(_texts(parsed)))
    # Once over all of them: hardly any file holds a secret, and one by one takes five times as long.
    if hide(texts) == texts:
        return parsed
    hidden = cache(hide)
    return replace(
        parsed,
        job=job_without_secrets(parsed.job, hidden),
        attempts=tuple(
            replace(
                each,
                suite=hidden(each.suite),
                name=hidden(each.name),
                cause=_cause(each.cause, hidden),
            )
            for each in parsed.attempts
        ),
    )


def job_without_secrets(job: JobEvidence, hide: Hide) -> JobEvidence:
    """`job` with `hide` applied to its texts; its id and its commit stay, because they identify."""
    hidden: dict[str, Any] = {
        name: hide(text) for name in _DESCRIBES if (text := getattr(job, name)) is not None
    }
    return replace(job, cause=_cause(job.cause, hide), **hidden)


def _texts(parsed: ParsedEvidence) -> Iterator[str]:
    for name in _DESCRIBES:
        yield getattr(parsed.job, name) or ""
    if parsed.job.cause is not None:
        yield parsed.job.cause.title
    for attempt in parsed.attempts:
        yield attempt.suite
        yield attempt.name
        if attempt.cause is not None:
            yield attempt.cause.title


def _cause(cause: Cause | None, hide: Hide) -> Cause | None:
    return None if cause is None else replace(cause, title=hide(cause.title))


# --- how far times without an offset must be moved, because they cannot be UTC ---

_QUARTER_MS: Final = 15 * 60 * 1000  # every zone is a multiple of it away from UTC
_SLACK_MS: Final = 60_000  # clocks of two machines
# UTC+14 and UTC-12 are the furthest zones (https://data.iana.org/time-zones/tz-link.html).
_MOST_EAST: Final = 14 * 4
_MOST_WEST: Final = 12 * 4


def shift_to_utc(
    run: tuple[int, int], *, began_ms: int | None, ended_ms: int | None, written_ms: int
) -> int:
    """Milliseconds to add to the times of a run, so that it is possible; 0 if it is, or if none helps.

    run: its start and its end, read as UTC. began_ms, ended_ms: of its job, None if not known.
    written_ms: when its file was last written. No run ends after its file was written or after its job,
    and none starts before its job. The smallest shift by quarters of an hour is taken.
    """
    start, end = run
    latest = (written_ms if ended_ms is None else min(written_ms, ended_ms)) + _SLACK_MS
    earliest = start if began_ms is None else began_ms - _SLACK_MS
    east = -((latest - end) // _QUARTER_MS)
    west = -((start - earliest) // _QUARTER_MS)
    if 0 < east <= _MOST_EAST:
        shift = -east * _QUARTER_MS
    elif east <= 0 and 0 < west <= _MOST_WEST:
        shift = west * _QUARTER_MS
    else:
        return 0
    is_possible = end + shift <= latest and (began_ms is None or start + shift >= earliest)
    return shift if is_possible else 0


# --- parsed files with their places -> evidence: each with its job, none of them twice ---
# ci-doctor writes one run in several forms (`report.json`, `junit.xml`, `attempts.xml`). The fullest
# one counts.

# The names that the reports of one run have in its folder, and as artifacts.
_SAME_RUN: Final = frozenset({"junit.xml", "attempts.xml"})
_ARTIFACT: Final = re.compile(r"(junit|attempts)-(.+)\.xml")
_EARLIEST_MS: Final = 946_684_800_000  # the beginning of 2000, in UTC
_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})


class PlacedFile(Struct, frozen=True, kw_only=True):
    """A file that was read. modified_ms: when it was last written, for evidence without a time.

    known: what is known of its job beforehand; None for what is known of all files.
    """

    place: str
    sha256: str
    modified_ms: int
    parsed: ParsedEvidence
    known: JobEvidence | None = None


class FileSurroundings(Struct, frozen=True, kw_only=True):
    """What stands around a file.

    places: all paths that are read. reports: those of reports with attempts. records: from a
    folder to the job of its record. by_job: the same by the job's key. jobs: the keys of jobs with
    such a report.
    """

    places: frozenset[str]
    reports: frozenset[str]
    records: Mapping[str, JobEvidence]
    by_job: Mapping[str | None, JobEvidence]
    jobs: frozenset[str | None]


def is_own(place: str) -> bool:
    """Whether a file is a record or a report by its name: they are read before all others."""
    return PurePosixPath(place).name in (JOB_FILE, REPORT_FILE)


def surroundings(places: Iterable[str], own: Sequence[PlacedFile]) -> FileSurroundings:
    """What `own`, the files for which `is_own` is true, say about all others."""
    # One without an attempt says nothing of the tests beside it: `diagnose` writes such reports.
    reports = [file for file in own if file.parsed.form == "report" and file.parsed.attempts]
    records = [file for file in own if PurePosixPath(file.place).name == JOB_FILE]
    return FileSurroundings(
        places=frozenset(places),
        reports=frozenset(file.place for file in reports),
        records={str(PurePosixPath(file.place).parent): file.parsed.job for file in records},
        by_job={file.parsed.job.key: file.parsed.job for file in records},
        jobs=frozenset(file.parsed.job.key for file in reports),
    )


def is_repeated(place: str, around: FileSurroundings) -> bool:
    """Whether another file says what the one at `place` says."""
    path = PurePosixPath(place)
    if path.name in _SAME_RUN and str(path.with_name(REPORT_FILE)) in around.reports:
        return True
    match = _ARTIFACT.fullmatch(path.name)
    if match is None:
        return False
    if match[2] in around.jobs:
        return True
    return match[1] == "junit" and str(path.with_name(f"attempts-{match[2]}.xml")) in around.places


def evidence_of_file(
    file: PlacedFile, around: FileSurroundings, known: JobEvidence
) -> EvidenceFile:
    """The evidence of a file with its job.

    That is its own, completed by the job record in the nearest folder above it, then by `known`. The
    job of an artifact is known, so that its own record counts, wherever it lies.
    """
    if file.known is None:
        above = _record_above(file.place, around.records)
    else:
        known = file.known
        above = around.by_job.get(file.parsed.job.key or known.key, JobEvidence())
    around_it = completed(above, known)
    return _with_job(_in_utc(file, around_it), around_it)


def _record_above(place: str, records: Mapping[str, JobEvidence]) -> JobEvidence:
    for folder in PurePosixPath(place).parents:
        record = records.get(str(folder))
        if record is not None:
            return record
    return JobEvidence()


def completed(*jobs: JobEvidence) -> JobEvidence:
    """The first job, with what it does not know from the next ones."""
    values: dict[str, object] = {}
    for job in jobs:
        for name, value in asdict(job).items():
            if values.get(name) is None:
                values[name] = value
    return JobEvidence(**values)  # type: ignore[arg-type]


def _in_utc(file: PlacedFile, job: JobEvidence) -> PlacedFile:
    """`file` with its times moved, if they have no offset and cannot be UTC."""
    parsed = file.parsed
    if parsed.zoneless_end_ms is None or parsed.job.started_ms is None:
        return file
    run = (parsed.job.started_ms, parsed.zoneless_end_ms)
    ended_ms = None
    if job.started_ms is not None and job.duration_ms is not None:
        ended_ms = job.started_ms + job.duration_ms
    shift = shift_to_utc(
        run, began_ms=job.started_ms, ended_ms=ended_ms, written_ms=file.modified_ms
    )
    if not shift:
        return file
    attempts = tuple(
        each if each.started_ms is None else replace(each, started_ms=each.started_ms + shift)
        for each in parsed.attempts
    )
    own = replace(parsed.job, started_ms=parsed.job.started_ms + shift)
    return replace(file, parsed=replace(parsed, job=own, attempts=attempts))


def _with_job(file: PlacedFile, around_it: JobEvidence) -> EvidenceFile:
    job = completed(file.parsed.job, around_it)
    started_ms = file.modified_ms if job.started_ms is None else job.started_ms
    # Of its own file alone: the cause of a record is counted with the record.
    own_cause = file.parsed.job.cause
    is_outside = job.cause is not None and job.cause.is_outside
    attempts = [_timed(each, started_ms, is_outside=is_outside) for each in file.parsed.attempts]
    return EvidenceFile(
        sha256=file.parsed.key or file.sha256,
        place=stored_text(file.place),
        form=file.parsed.form,
        job=_stored_job(
            replace(job, key=job.key or _key(file, job), started_ms=started_ms, cause=own_cause)
        ),
        attempts=tuple(attempts),
    )


def with_possible_times(
    file: EvidenceFile, around: FileSurroundings, *, modified_ms: int, now_ms: int
) -> tuple[EvidenceFile, int]:
    """`file` with times that can be true, and how many attempts had others by a minute or more.

    A clock may be fast: no attempt begins after `now_ms`, or after the end of its job by the job's record.
    A clock may never have been set: none begins before this century. Both get a possible time, so that they
    count: the latest one; or the beginning of the job, else when the file was last written.
    """
    record = around.by_job.get(file.job.key, JobEvidence())
    latest = now_ms
    unset = min(modified_ms, now_ms)
    if record.started_ms is not None and _EARLIEST_MS <= record.started_ms <= now_ms:
        unset = record.started_ms
        if record.duration_ms is not None:
            latest = min(latest, record.started_ms + record.duration_ms)

    def possible(moment: int | None) -> int:
        if moment is None or moment < _EARLIEST_MS:
            return unset
        return min(moment, latest)

    attempts = tuple(
        each if each.started_ms == possible(each.started_ms)
        else replace(each, started_ms=possible(each.started_ms))
        for each in file.attempts
    )  # fmt: skip
    moved = sum(
        abs((one.started_ms or 0) - (other.started_ms or 0)) >= _SLACK_MS
        for one, other in zip(file.attempts, attempts, strict=True)
    )
    job = replace(file.job, started_ms=possible(file.job.started_ms))
    return replace(file, job=job, attempts=attempts), moved


def _stored_job(job: JobEvidence) -> JobEvidence:
    return replace(
        job,
        key=stored_name(job.key),
        pipeline=stored_name(job.pipeline),
        step=stored_name(labelled_step(job)),
        label=None,
        branch=stored_name(job.branch),
        commit=stored_name(job.commit),
        agent=stored_name(job.agent),
        queue=stored_name(job.queue),
        cause=_stored_cause(job.cause),
    )


def labelled_step(job: JobEvidence) -> str | None:
    """The step with the label, which tells the jobs of a matrix apart."""
    if job.label is None or job.step is None or job.label == job.step:
        return job.label or job.step
    return f"{job.step} ({job.label})"


def _stored_cause(cause: Cause | None) -> Cause | None:
    if cause is None:
        return None
    return replace(cause, title=stored_text(cause.title))


def _timed(attempt: AttemptEvidence, started_ms: int, *, is_outside: bool) -> AttemptEvidence:
    suite = stored_text(attempt.suite)
    name = stored_text(attempt.name)
    if suite is not attempt.suite or name is not attempt.name:
        attempt = replace(attempt, suite=suite, name=name)
    if attempt.cause is not None:
        attempt = replace(attempt, cause=_stored_cause(attempt.cause))
    if is_outside and attempt.outcome in _RED:
        attempt = replace(attempt, outcome=AttemptOutcome.INFRA)
    if attempt.started_ms is None:
        attempt = replace(attempt, started_ms=started_ms)
    return attempt


def _key(file: PlacedFile, job: JobEvidence) -> str:
    """A key for a job without an id: its place in the build, else the file itself."""
    step = labelled_step(job)
    if job.pipeline is not None and job.build is not None and step is not None:
        return f"{job.pipeline}/{job.build}/{step}"
    return f"file:{(file.parsed.key or file.sha256)[:32]}"

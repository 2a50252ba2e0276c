# SPDX-License-Identifier: Apache-2.0
"""Pure. What evidence files hold: a job and the attempts of its tests, with their times and names."""

import hashlib
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import IntEnum
from functools import cache, lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.cause import Cause, fingerprint
from ci_doctor.model.words import moment_text
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

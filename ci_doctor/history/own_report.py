# SPDX-License-Identifier: Apache-2.0
"""Pure. The bytes of a file -> the job and the attempts that it names: a report of ci-doctor, or JUnit XML."""

import codecs
import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    JobEvidence,
    ParsedEvidence,
    cause_of_message,
    milliseconds,
    moment_ms,
)
from ci_doctor.history.junit import read_junit
from ci_doctor.model.cause import Cause, LogLine, cause_of_report, for_record
from ci_doctor.model.facts.build import SCHEMA as JOB_SCHEMA
from ci_doctor.model.facts.build import JobRecord
from ci_doctor.model.outcome import About, Case, CaseAttempt, CaseOutcome, Report, Verdict
from ci_doctor.model.words import did_you_mean
from ci_doctor.render.json import parse

# --- a report.json or a job.json of ci-doctor -> its job and its attempts ---

REPORT_SCHEMAS: Final = "ci-doctor/report/"
RECORD_SCHEMAS: Final = "ci-doctor/job/"
_TOO_LARGE: Final = 2**63  # for an integer of the databases
_MERGED: Final = "build_steps"
_OUTCOMES: Final = {
    CaseOutcome.PASSED: AttemptOutcome.PASSED,
    CaseOutcome.FAILED: AttemptOutcome.FAILED,
    CaseOutcome.ERROR: AttemptOutcome.ERROR,
    CaseOutcome.SKIPPED: AttemptOutcome.SKIPPED,
}
_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})


def evidence_of(report: Report) -> ParsedEvidence:
    """The cases of a report with all their attempts, and the cause that it names.

    The report of a merged build has none: its parts are evidence of their own.
    """
    started_ms = moment_ms(report.started_at)
    job = msgspec.structs.replace(
        job_of(report.about),
        started_ms=started_ms,
        duration_ms=milliseconds(report.duration_s),
        cause=_stored(cause_of_report(report), report.verdict),
    )
    if _MERGED in report.facts:
        return ParsedEvidence(form="merged report")
    attempts: list[AttemptEvidence] = []
    counts: dict[tuple[str, str], int] = {}
    for case in report.cases:
        # Cases of one group and name are attempts in their order, as in a JUnit file.
        before = counts.get((case.group, case.name), 0)
        tries = case.attempts or (
            CaseAttempt(outcome=case.outcome, message=case.message, duration_s=case.duration_s),
        )
        for number, each in enumerate(tries, start=before + 1):
            began = moment_ms(each.started_at)
            attempts.append(
                _attempt(case, each, number, started_ms if began is None else began, report.verdict)
            )
        counts[case.group, case.name] = before + len(tries)
    return ParsedEvidence(form="report", key=report_key(report), job=job, attempts=tuple(attempts))


def report_key(report: Report) -> str:
    """What identifies the run of a report: 64 hexadecimal digits, as a file's hash has.

    By it a run counts once, whether it wrote to the history itself or its report.json is ingested.
    """
    about = report.about
    parts = (report.command, report.argv, report.started_at, about.job, about.agent, about.commit)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def read_record(raw: Any) -> ParsedEvidence:
    """The job of a decoded job.json. Raises UsageError if it is of another form."""
    try:
        record = msgspec.convert(raw, decodable(JobRecord))
    except msgspec.ValidationError as error:
        raise UsageError(f"it is not the record of a job ({JOB_SCHEMA}): {error}") from error
    began = moment_ms(record.began_at)
    ended = moment_ms(record.ended_at)
    duration_ms = None if began is None or ended is None or ended < began else ended - began
    job = msgspec.structs.replace(
        job_of(record.about),
        label=record.label if record.about.parallel_index is None else None,
        started_ms=began,
        duration_ms=duration_ms,
        cause=_stored(record.cause, record.verdict),
    )
    return ParsedEvidence(form="job record", job=job)


def job_of(about: About) -> JobEvidence:
    """What `about` says of the job. Its key is the id of the job; None outside a job."""
    return JobEvidence(
        key=about.job,
        pipeline=about.pipeline,
        build=about.build if about.build is not None and about.build < _TOO_LARGE else None,
        step=about.step,
        branch=about.branch,
        commit=about.commit,
        agent=about.agent,
        queue=about.queue,
        gpus=len(about.gpus) or None,
    )


def _stored(cause: Cause | None, verdict: str | None) -> Cause | None:
    """`cause` as a database keeps it: the line that shows it is a part of its title."""
    if cause is None:
        return None
    short = for_record(cause)
    is_outside = cause.may_be_retried or verdict == Verdict.INFRA
    return msgspec.structs.replace(
        short, title=short.phrase, place=LogLine(), is_outside=is_outside
    )


def _attempt(
    case: Case, tried: CaseAttempt, number: int, started_ms: int | None, verdict: Verdict | None
) -> AttemptEvidence:
    outcome = _OUTCOMES[tried.outcome]
    is_red = outcome in _RED
    return AttemptEvidence(
        suite=case.group,
        name=case.name,
        outcome=AttemptOutcome.INFRA if is_red and verdict is Verdict.INFRA else outcome,
        number=number,
        started_ms=started_ms,
        duration_ms=milliseconds(tried.duration_s),
        cause=cause_of_message(tried.message or "") if is_red else None,
    )


# --- what is known of a job whose evidence does not say it ---

_MOST_DIGITS: Final = 18  # of an integer of the databases
_FIELDS: Final = {
    "pipeline": "pipeline",
    "build": "build",
    "step": "step",
    "label": "label",
    "job": "key",
    "commit": "commit",
    "branch": "branch",
    "agent": "agent",
    "queue": "queue",
}


def known_job(words: Sequence[str], about: About, label: str | None = None) -> JobEvidence:
    """The words of `--about`; without any, the Buildkite job of `about`, with the label of its step.

    Outside a job nothing is known: the commit of the folder in which somebody ingests downloaded
    files is not theirs. Raises UsageError for a word that is no KEY=VALUE.
    """
    if not words:
        return replace(job_of(about), label=label) if about.job is not None else JobEvidence()
    values: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not value:
            raise UsageError(f"--about {word}: it is no KEY=VALUE", hint="such as commit=4fe1a2b")
        if name not in _FIELDS:
            raise UsageError(
                f"--about: nothing of a job is called `{name}`", hint=did_you_mean(name, _FIELDS)
            )
        values[_FIELDS[name]] = _number(value) if name == "build" else value
    return replace(JobEvidence(), **values)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--about build={text}: it is no number", hint="such as build=812")
    if len(text) > _MOST_DIGITS:
        raise UsageError(f"--about build={text}: it is too large", hint="such as build=812")
    return int(text)


# --- the bytes of a file -> what it says, whichever form it has ---

_BOM: Final = codecs.BOM_UTF8
# Of XML in UTF-16 and UTF-32, with a mark of the order of the bytes and without one.
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\0<", b"\0\0\0<", b"\0\0\xfe\xff")


def parsed(content: bytes) -> ParsedEvidence | None:
    """What the file says; None if it is JSON of something else, or neither JSON nor XML.

    Raises UsageError if it is empty, damaged, or refused for what it holds, and OtherXmlError for XML
    of something else.
    """
    if content.startswith(_WIDE):
        return read_junit(content)
    start = content.removeprefix(_BOM).lstrip()[:1]
    if not start:
        raise UsageError("it is empty")
    if start == b"<":
        return read_junit(content)
    if start in (b"{", b"["):
        return _json(content)
    return None


def _json(content: bytes) -> ParsedEvidence | None:
    try:
        raw = msgspec.json.decode(content.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"it is not JSON: {error}") from error
    except RecursionError as error:
        raise UsageError("it is nested too deep") from error
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if isinstance(schema, str) and schema.startswith(REPORT_SCHEMAS):
        return evidence_of(parse(content))
    if isinstance(schema, str) and schema.startswith(RECORD_SCHEMAS):
        return read_record(raw)
    return None

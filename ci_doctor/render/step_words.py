# SPDX-License-Identifier: Apache-2.0
"""Pure. What a step's annotation says: its ending, its cause, its earlier attempts."""

import html
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from ci_doctor.decodable import decodable
from ci_doctor.model.about import About
from ci_doctor.model.cause import Cause, LogLine, cause_of_finding, diagnosed_cause
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.job_record import EarlierAttempt, JobRecord
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import CANCELLED, NO_VERDICT, VERDICTS, WORST_FIRST, Verdict, rank
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import numbered
from ci_doctor.render.headline import TIMED_OUT, Headline, job_headline, safe_address, worst_first
from ci_doctor.render.markup import fitted
from ci_doctor.render.safe_text import cleaned, one_line

# Of the logs that the plugin was given, which a reader of the verdict's own meaning does not know.
_NEXT_OF_FAILED = (
    "Read the log of the job. If the option `diagnose` of the plugin names the logs of the command, "
    "their cause stands here."
)


def step_headline(record: JobRecord, *, is_judged: bool) -> Headline:
    """The first words about the job of `record`."""
    if record.is_timed_out:
        return job_headline(TIMED_OUT)
    if record.is_cancelled:
        return job_headline(CANCELLED)
    if passed_without_evidence(record, is_judged=is_judged):
        return job_headline(Verdict.PASS)
    headline = job_headline(record.verdict if record.verdict in WORST_FIRST else NO_VERDICT)
    if record.verdict == Verdict.FAILED and record.command_status:
        return headline._replace(meaning=_ending(record.command_status))
    return headline


def passed_without_evidence(record: JobRecord, *, is_judged: bool) -> bool:
    """Whether the command ended well, and no report judges it (`is_judged`)."""
    is_stopped = record.is_cancelled or record.is_timed_out
    return not is_judged and not is_stopped and record.command_status == 0


def next_step(verdict: str) -> str | None:
    """What to do if no cause is named; None if there is nothing to add."""
    if verdict == Verdict.FAILED:
        return _NEXT_OF_FAILED
    if verdict == Verdict.PASS or verdict not in set(Verdict):
        return None
    return VERDICTS[Verdict(verdict)].remedy


def _ending(status: int) -> str:
    if status == -1:
        return "a signal ended the command"
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return f"the command ended with status {status}"
    # A shell's way to say it: 137 is 128 + SIGKILL.
    return f"the command ended with status {status}, as after {name}"


class StepResult(Struct, frozen=True, kw_only=True):
    """One job of a step, and what is known of its earlier attempts.

    reports: of this job, the oldest first. page: the path of the leading report's page on the
    Artifacts tab; None if there is none.
    """

    record: JobRecord
    reports: tuple[Report, ...] = ()
    earlier: tuple[EarlierAttempt, ...] = ()
    page: str | None = None


def has_passed(step: StepResult) -> bool:
    """Whether the job passed: by its verdict, or because nothing was judged and its command ended with 0."""
    record = step.record
    if record.is_cancelled or record.is_timed_out:
        return False
    if record.verdict == Verdict.PASS:
        return True
    return passed_without_evidence(record, is_judged=is_judged(step.reports))


def is_judged(reports: Sequence[Report]) -> bool:
    """Whether a report judges the job, or an error ended one; one on caches does neither."""
    return any(each.verdict is not None or each.error is not None for each in reports)


_AFTER = 2  # lines of an excerpt below the cause
_EXCERPT_LINES = 8
_LINE_CHARACTERS = 180


class CauseKind(StrEnum):
    """What a reader is shown: a cause, an observation, or where to begin without either."""

    CAUSE = "Cause"
    FINDING = "Finding"
    BEGINNING = "No cause is named"


class StepCause(NamedTuple):
    """Why a step ended as it did: what is named, of what kind that is, and the lines around it."""

    named: Cause
    excerpt: str | None = None
    kind: CauseKind = CauseKind.CAUSE


class _Diagnosed(NamedTuple):
    cause: Cause | None
    excerpt: LogLines | None


def leading_report(reports: Sequence[Report]) -> Report | None:
    """The one that a reader opens first: of the worst verdict, the last one among equals.

    A report that judges nothing and names a cause stands before one without an error.
    """
    if not reports:
        return None
    newest_first = list(reversed(reports))
    return min(newest_first, key=_rank)


def _rank(report: Report) -> int:
    if report.verdict is not None:
        return rank(report.verdict)
    if report.error is not None:
        return rank(NO_VERDICT)
    # Below all verdicts: it says nothing of the job.
    return rank(Verdict.FAILED) if any(_diagnoses(report)) else rank(Verdict.PASS) + 1


def step_cause(cause: Cause | None, reports: Sequence[Report]) -> StepCause | None:
    """The cause to show: the record's, else the first that a report names; None without any.

    `reports` are cleaned (`safe_text.cleaned`), the leading one first.
    """
    diagnosed = [each for report in reports for each in _diagnoses(report)]
    named = _named(cause, diagnosed)
    if named is not None:
        return named
    if cause is not None:
        return _of_record(cause, reports)
    return _of_a_finding(reports) or _of_a_beginning(diagnosed)


def _named(cause: Cause | None, diagnosed: Sequence[_Diagnosed]) -> StepCause | None:
    """What a log names as `cause`, or as any cause if that is None."""
    for each in diagnosed:
        if each.cause is None:
            continue
        if cause is None or each.cause.fingerprint == cause.fingerprint:
            return StepCause(each.cause, _lines(each.excerpt) if each.excerpt else None)
    return None


def _of_a_finding(reports: Sequence[Report]) -> StepCause | None:
    for report in reports:
        # The finding of a diagnosis says less than what it read.
        if report.verdict is Verdict.PASS or any(_diagnoses(report)):
            continue
        for finding in worst_first(report)[:1]:
            if finding.severity is not Severity.NOTE:
                return _of_finding(finding)
    return None


def _of_a_beginning(diagnosed: Sequence[_Diagnosed]) -> StepCause | None:
    for each in diagnosed:
        if each.excerpt is not None:
            return _beginning(each.excerpt)
    return None


def _diagnoses(report: Report) -> Iterator[_Diagnosed]:
    """What `diagnose`, or `run --diagnose`, has read in logs; nothing for another command."""
    facts = report.facts.get("diagnosis")
    if not isinstance(facts, Mapping):
        facts = report.facts
    cause = diagnosed_cause(report)
    try:
        excerpt = msgspec.convert(facts.get("excerpt"), decodable(LogLines | None))
    # Another version wrote it, or somebody else.
    except msgspec.ValidationError:
        excerpt = None
    if cause is not None or excerpt is not None:
        yield _Diagnosed(cause, excerpt)


def _of_record(cause: Cause, reports: Sequence[Report]) -> StepCause:
    """The record's cause, with the evidence of the finding that it was made of."""
    for report in reports:
        for finding in report.findings:
            if finding.summary in {cause.title, cause.text}:
                shown = _of_finding(finding)
                named = structs.replace(shown.named, fingerprint=cause.fingerprint)
                return shown._replace(named=named)
    return StepCause(cause)


def _of_finding(finding: Finding) -> StepCause:
    # An observation is no cause that another job could share.
    named = structs.replace(cause_of_finding(finding), fingerprint="")
    evidence = finding.evidence[0].excerpt if finding.evidence else None
    excerpt = _beginning_of(evidence) if evidence else None
    return StepCause(named, excerpt, CauseKind.FINDING)


def _beginning(excerpt: LogLines) -> StepCause:
    place = LogLine(file=excerpt.file, line=excerpt.first_line + excerpt.marked)
    title = "no line of the logs explains it by itself"
    named = Cause(fingerprint="", title=title, place=place)
    return StepCause(named, _lines(excerpt), CauseKind.BEGINNING)


def _lines(excerpt: LogLines) -> str:
    """Numbered lines; `> ` stands before the cause."""
    rows = (
        f"{mark} {number} | {text}".rstrip() for mark, number, text in numbered(excerpt, _AFTER)
    )
    return "\n".join(shortened(row, _LINE_CHARACTERS) for row in rows)


def _beginning_of(excerpt: str) -> str:
    lines = excerpt.strip("\n")[: 4 * _EXCERPT_LINES * _LINE_CHARACTERS].split("\n")
    shown = [shortened(line, _LINE_CHARACTERS) for line in lines[:_EXCERPT_LINES]]
    if len(lines) > _EXCERPT_LINES:
        shown.append("…")
    return "\n".join(shown)


def short_cause(cause: StepCause) -> str:
    """The cause as a phrase for the attempts after this one."""
    return one_line(cause.named.phrase)


_SHOWN = 4  # attempts with a text of their own, the last ones
_CAUSE_BYTES = 300
_JOB = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


def attempts_line(
    record: JobRecord, earlier: Sequence[EarlierAttempt], *, has_passed: bool = False
) -> str:
    """What this attempt is, and what those before it were; empty for a first one."""
    number = record.about.attempt or 0
    if number == 0 and not earlier:
        return ""
    known = {each.attempt: cleaned(each) for each in earlier}
    first = max(0, number - _SHOWN)
    shown = range(first, number)
    line = f"Passed on attempt {number + 1}." if has_passed else f"Attempt {number + 1}."
    if first:
        line += f" {first} earlier ones are not shown."
    sentences = [_sentence(index, known.get(index), record.about) for index in shown]
    return " ".join([f"**{line}**", *sentences])


def _sentence(index: int, attempt: EarlierAttempt | None, about: About) -> str:
    if attempt is None or attempt.verdict is None:
        return f"Attempt {index + 1}: nothing is known of it."
    phrases = [fitted(job_headline(attempt.verdict).name, _CAUSE_BYTES)]
    if attempt.cause:
        phrases.append(fitted(attempt.cause, _CAUSE_BYTES))
    if attempt.exit_status:
        phrases.append(f"exit status {attempt.exit_status}")
    address = job_address(about, attempt.job)
    if address is not None:
        phrases.append(f'<a href="{address}">log</a>')
    return f"Attempt {index + 1}: {', '.join(phrases)}."


def job_address(about: About, job: str | None) -> str | None:
    """The address of a job on its build's page, as an attribute's value; None if it is not safe."""
    if job is None or _JOB.fullmatch(job) is None:
        return None
    build = safe_address(about.build_url)
    # The page that shows the annotation is the build's: there the id alone is enough.
    return html.escape(f"{build or ''}#{job}")

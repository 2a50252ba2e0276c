# SPDX-License-Identifier: Apache-2.0
"""Pure. What a step's annotation says of the cause, from the job's record and its reports."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from ci_doctor.model.diagnosed import root_cause_in
from ci_doctor.model.facts.diagnose import LogLine, LogLines, RootCause
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.job_record import JobCause
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import WORST_FIRST, Verdict
from ci_doctor.render.formatting import place, shortened
from ci_doctor.render.headline import worst_first
from ci_doctor.render.remedies import is_advice, is_sentence
from ci_doctor.render.safe_text import one_line

_BEFORE = 3  # lines of an excerpt above the cause, and below it
_AFTER = 2
_EXCERPT_LINES = 8
_LINE_CHARACTERS = 180


class CauseKind(StrEnum):
    """What a reader is shown: a cause, an observation, or where to begin without either."""

    CAUSE = "Cause"
    FINDING = "Finding"
    BEGINNING = "No cause is named"


class StepCause(NamedTuple):
    """Why a step ended as it did.

    title: a phrase. text: the line that shows it, `place`: where. excerpt: the lines around it.
    advice: sentences on what to do; command: one to paste. followed: what came of it.
    """

    title: str
    text: str | None = None
    place: str | None = None
    excerpt: str | None = None
    advice: tuple[str, ...] = ()
    command: str | None = None
    followed: tuple[LogLine, ...] = ()
    fingerprint: str | None = None
    kind: CauseKind = CauseKind.CAUSE


class _Diagnosed(NamedTuple):
    cause: RootCause | None
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
    failed = WORST_FIRST.index(Verdict.FAILED)
    if report.verdict is not None:
        return WORST_FIRST.index(report.verdict)
    if report.error is not None:
        return WORST_FIRST.index("error")
    return failed if any(_diagnoses(report)) else len(WORST_FIRST)


def step_cause(cause: JobCause | None, reports: Sequence[Report]) -> StepCause | None:
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


def _named(cause: JobCause | None, diagnosed: Sequence[_Diagnosed]) -> StepCause | None:
    """What a log names as `cause`, or as any cause if that is None."""
    for each in diagnosed:
        if each.cause is None:
            continue
        if cause is None or each.cause.fingerprint == cause.fingerprint:
            return _of_log(each.cause, each.excerpt)
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
    cause = root_cause_in(facts)
    try:
        excerpt = msgspec.convert(facts.get("excerpt"), LogLines | None)
    # Another version wrote it, or somebody else.
    except msgspec.ValidationError:
        excerpt = None
    if cause is not None or excerpt is not None:
        yield _Diagnosed(cause, excerpt)


def _of_log(cause: RootCause, excerpt: LogLines | None) -> StepCause:
    advice = [each for each in (cause.remedy, cause.about_retry) if each]
    return StepCause(
        title=cause.title,
        text=cause.place.message,
        place=f"{cause.place.file}:{cause.place.line}",
        excerpt=_lines(excerpt) if excerpt else None,
        advice=tuple(advice),
        command=cause.next_command,
        followed=cause.consequences,
        fingerprint=cause.fingerprint,
    )


def _of_record(cause: JobCause, reports: Sequence[Report]) -> StepCause:
    """The record's cause, with the evidence of the finding that it was made of."""
    for report in reports:
        for finding in report.findings:
            if finding.summary in {cause.title, cause.text}:
                return _of_finding(finding)._replace(fingerprint=cause.fingerprint)
    remedy = cause.remedy
    return StepCause(
        title=cause.title,
        text=cause.text,
        place=cause.place,
        advice=(remedy,) if remedy and is_sentence(remedy) else (),
        command=None if remedy and is_sentence(remedy) else remedy,
        fingerprint=cause.fingerprint,
    )


def _of_finding(finding: Finding) -> StepCause:
    remedy = finding.remedy
    is_to_read = remedy is not None and is_advice(finding)
    shown = StepCause(
        title=finding.summary,
        kind=CauseKind.FINDING,
        advice=(remedy,) if remedy and is_to_read else (),
        command=None if is_to_read else remedy,
    )
    for evidence in finding.evidence[:1]:
        excerpt = _beginning_of(evidence.excerpt) if evidence.excerpt else None
        shown = shown._replace(place=place(evidence), excerpt=excerpt)
    return shown


def _beginning(excerpt: LogLines) -> StepCause:
    where = f"{excerpt.file}:{excerpt.first_line + excerpt.marked}"
    return StepCause(
        title="no line of the logs explains it by itself",
        place=where,
        excerpt=_lines(excerpt),
        kind=CauseKind.BEGINNING,
    )


def _lines(excerpt: LogLines) -> str:
    """Numbered lines; `> ` stands before the cause."""
    first = max(0, excerpt.marked - _BEFORE)
    shown = excerpt.messages[first : excerpt.marked + _AFTER + 1]
    cells = len(str(excerpt.first_line + first + len(shown)))
    lines = []
    for index, text in enumerate(shown, first):
        mark = ">" if index == excerpt.marked else " "
        number = excerpt.first_line + index
        # Not `one_line`: a traceback is read by its indentation.
        row = text.replace("\n", " ")
        line = f"{mark} {number:>{cells}} | {row}".rstrip()
        lines.append(shortened(line, _LINE_CHARACTERS))
    return "\n".join(lines)


def _beginning_of(excerpt: str) -> str:
    lines = excerpt.strip("\n")[: 4 * _EXCERPT_LINES * _LINE_CHARACTERS].split("\n")
    shown = [shortened(line, _LINE_CHARACTERS) for line in lines[:_EXCERPT_LINES]]
    if len(lines) > _EXCERPT_LINES:
        shown.append("…")
    return "\n".join(shown)


def short_cause(cause: StepCause) -> str:
    """The cause as a phrase for the attempts after this one."""
    if cause.text is None:
        return one_line(cause.title)
    return one_line(f"{cause.title}: {cause.text}")

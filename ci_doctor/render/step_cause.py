# SPDX-License-Identifier: Apache-2.0
"""Pure. What a step's annotation says of the cause, from the job's record and its reports."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import structs

from ci_doctor.decodable import decodable
from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.report import Report
from ci_doctor.model.report_cause import cause_of_finding, diagnosed_cause
from ci_doctor.model.shortened import shortened
from ci_doctor.model.verdict import NO_VERDICT, Verdict, rank
from ci_doctor.render.formatting import numbered
from ci_doctor.render.headline import worst_first
from ci_doctor.render.safe_text import one_line

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

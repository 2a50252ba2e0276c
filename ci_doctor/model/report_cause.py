# SPDX-License-Identifier: Apache-2.0
"""Pure. The cause that a report names: here alone it is chosen."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from ci_doctor.decodable import decodable
from ci_doctor.model.cause import Cause, LogLine, Owner, RetryPolicy
from ci_doctor.model.finding import Finding, RemedyKind, Severity
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict

_MOST_CHARACTERS = 2000


def cause_of_report(report: Report) -> Cause | None:
    """What its diagnosis names, else its first error among the findings, else what ended it."""
    diagnosed = diagnosed_cause(report)
    if diagnosed is not None:
        return diagnosed
    for finding in report.findings:
        if finding.severity is Severity.ERROR:
            return judged_by(cause_of_finding(finding), report.verdict)
    if report.error is None:
        return None
    error = report.error
    named = Cause(
        fingerprint=_fingerprint(f"error/{error.kind}", error.message),
        title=error.message,
        rule=f"error/{error.kind}",
        remedy=error.hint or "",
    )
    return judged_by(named, report.verdict)


def diagnosed_cause(report: Report) -> Cause | None:
    """The root cause of a report of `diagnose`, or of `run --diagnose`; None without one."""
    facts: Mapping[str, Any] = report.facts
    diagnosis = facts.get("diagnosis")
    if isinstance(diagnosis, Mapping):
        facts = diagnosis
    try:
        return msgspec.convert(facts.get("root_cause"), decodable(Cause | None))
    # Another version wrote it, or somebody else.
    except msgspec.ValidationError:
        return None


def diagnosed_causes(reports: Sequence[Report]) -> Iterator[Cause]:
    """Those of all `reports`, in their order."""
    for report in reports:
        cause = diagnosed_cause(report)
        if cause is not None:
            yield cause


def cause_of_finding(finding: Finding) -> Cause:
    """What a finding says of a failure, as far as it says it; the command that made it judges the rest."""
    line = next(_lines(finding), "")
    evidence = next((each for each in finding.evidence if each.file is not None), None)
    place = LogLine(text=line, message=line)
    if evidence is not None:
        place = structs.replace(place, file=evidence.file or "", line=evidence.line)
    is_command = finding.remedy_kind is RemedyKind.COMMAND
    return Cause(
        fingerprint=_fingerprint(finding.rule, f"{finding.summary} {line}".strip()),
        title=finding.summary,
        place=place,
        rule=finding.rule,
        remedy="" if is_command else finding.remedy or "",
        next_command=finding.remedy if is_command else None,
    )


def judged_by(cause: Cause, verdict: str | None) -> Cause:
    """`cause` of a job with `verdict`: only `infra` says that it lies outside, and `regression` that it does not."""
    if verdict == Verdict.REGRESSION:
        return structs.replace(cause, owner=Owner.CHANGE, retry=RetryPolicy.NO)
    if verdict != Verdict.INFRA:
        return cause
    return structs.replace(
        cause, owner=Owner.OUTSIDE, retry=RetryPolicy.YES, is_outside=True, is_final=True
    )


def _lines(finding: Finding) -> Iterator[str]:
    """The lines that the evidence marks with `> `, else the first one of each."""
    excerpts = [each.excerpt.splitlines() for each in finding.evidence if each.excerpt]
    for lines in excerpts:
        yield from (line[2:].strip() for line in lines if line.startswith("> "))
    for lines in excerpts:
        yield from (line.strip() for line in lines[:1] if line.strip())


def _fingerprint(rule: str, message: str) -> str:
    # Late: its expressions take longer to compile than a hook without a failure has.
    from ci_doctor.model.fingerprint import fingerprint

    # Some of them take quadratic time, and a command may have printed a megabyte without a space.
    return fingerprint(rule, {}, message[:_MOST_CHARACTERS])

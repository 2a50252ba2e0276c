# SPDX-License-Identifier: Apache-2.0
"""Pure. Why a job failed, from its reports, in the form that the reports of a build compare."""

from collections.abc import Iterator, Sequence

from ci_doctor.buildkite.job_end import JobEnd, explains
from ci_doctor.diagnosis.fingerprint import fingerprint
from ci_doctor.model.diagnosed import cause_of_job, quoted_line, root_cause_in
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.job_record import JobCause
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict


def job_cause(reports: Sequence[Report], end: JobEnd) -> JobCause | None:
    """The cause; None if no report names one.

    A report that explains the job's status comes first, then what was diagnosed, the last diagnosis
    first: it has read the most. Then the first error of any report.
    """
    explaining = [each for each in reports if any(explains(each, code) for code in end.failures)]
    diagnosing = [each for each in reversed(reports) if root_cause_in(each.facts) is not None]
    for report in (*explaining, *diagnosing, *reports):
        cause = _of_report(report)
        if cause is not None:
            return cause
    return None


def _of_report(report: Report) -> JobCause | None:
    cause = root_cause_in(report.facts)
    if cause is not None:
        return cause_of_job(cause)
    for finding in report.findings:
        if finding.severity is Severity.ERROR:
            return _of_finding(finding, report)
    return _of_error(report)


def _of_finding(finding: Finding, report: Report) -> JobCause:
    line = next(_lines(finding), None)
    message = f"{finding.summary} {line or ''}".strip()
    return JobCause(
        fingerprint=fingerprint(finding.rule, {}, message),
        title=finding.summary,
        text=None if line is None else quoted_line(line),
        place=next(_places(finding.evidence), None),
        remedy=finding.remedy,
        may_be_retried=report.verdict is Verdict.INFRA,
    )


def _lines(finding: Finding) -> Iterator[str]:
    """The lines that the evidence marks with `> `, else the first one of each."""
    excerpts = [each.excerpt.splitlines() for each in finding.evidence if each.excerpt]
    for lines in excerpts:
        yield from (line[2:].strip() for line in lines if line.startswith("> "))
    for lines in excerpts:
        yield from (line.strip() for line in lines[:1] if line.strip())


def _places(evidence: Sequence[Evidence]) -> Iterator[str]:
    for each in evidence:
        if each.file is not None:
            yield each.file if each.line is None else f"{each.file}:{each.line}"


def _of_error(report: Report) -> JobCause | None:
    if report.error is None:
        return None
    kind = report.error.kind
    return JobCause(
        fingerprint=fingerprint(f"error/{kind}", {}, report.error.message),
        title=report.error.message,
        remedy=report.error.hint,
        may_be_retried=report.verdict is Verdict.INFRA,
    )

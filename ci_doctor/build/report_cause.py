# SPDX-License-Identifier: Apache-2.0
"""Pure. The cause of a job's failure as its reports have it, for a job without a record of one."""

from collections.abc import Iterable, Sequence

from ci_doctor.model.diagnosed import cause_of_job, root_causes
from ci_doctor.model.finding import Severity
from ci_doctor.model.job_record import JobCause
from ci_doctor.model.report import Report


def cause_of_reports(reports: Sequence[Report]) -> JobCause | None:
    """The first root cause that a diagnosis has named; None without one."""
    root = next(root_causes(reports), None)
    return None if root is None else cause_of_job(root)


def first_rule(reports: Iterable[Report]) -> str | None:
    """The rule of the first finding of severity error."""
    for report in reports:
        for finding in report.findings:
            if finding.severity is Severity.ERROR:
                return finding.rule
    return None

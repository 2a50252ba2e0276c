# SPDX-License-Identifier: Apache-2.0
"""Pure. What becomes of a report that could not be written or printed whole."""

from msgspec.structs import replace

from ci_doctor.model.outcome import ErrorKind, Failure, Outcome
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.exit_policy import ExitPolicy, exit_code
from ci_doctor.session.rules import NOT_DELIVERED

_HINT = "free some space, or name a directory that this user can write with --report-dir"
_READER_HINT = "read stdout to its end, or leave it out and read report.json"


def undelivered(
    report: Report, problems: tuple[str, ...], policy: ExitPolicy, *, reader_code: int | None = None
) -> Report:
    """`report` with `problems`, sentences on what could not be written or printed.

    What the files, the terminal and the status of the process say must be one. So a report that
    would end with 0 becomes `infra`; any other keeps its verdict and its code. `reader_code` is the
    exit code in place of infra's if the reader of stdout left; None if nobody did.
    """
    message = _sentence(problems)
    finding = NOT_DELIVERED.finding(message)
    findings = (*report.findings, finding)
    if report.exit_code:
        return replace(report, findings=findings)
    hint = _HINT
    infra = Outcome(verdict=Verdict.INFRA, summary=message)
    code = exit_code(infra, policy)
    if reader_code is not None:
        hint = _READER_HINT
        code = reader_code
    error = Failure(message=message, hint=hint, detail=_former(report), kind=ErrorKind.INFRA)
    return replace(report, verdict=Verdict.INFRA, exit_code=code, error=error, findings=findings)


def _sentence(problems: tuple[str, ...]) -> str:
    first, *others = problems
    if not others:
        return first
    return f"{first}, and {len(others)} more"


def _former(report: Report) -> str | None:
    """What the report said before; a verdict that nobody can check is worth knowing all the same."""
    if report.verdict is None:
        return None
    return f"the verdict was {report.verdict}, before the report could not be delivered"

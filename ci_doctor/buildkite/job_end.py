# SPDX-License-Identifier: Apache-2.0
"""Pure. How a job ended, and the one verdict that stands for it in the build's meta-data."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.model.cause import diagnosed_causes
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import NO_VERDICT, Verdict, worst

# A time-out (timeout(1)) or a signal from outside ended the command, and no line of its log tells
# why. -1 stands for a signal that ended the command's own shell.
ENDED_FROM_OUTSIDE = frozenset({-1, 124, 129, 130, 131, 137, 143})


class JobEnd(Struct, frozen=True, kw_only=True):
    """What a hook at the end of a job knows of it.

    `command_status` is None if the command never ran. `failures` are the statuses, other than 0, of
    the command and of the hook that ran last.
    https://buildkite.com/docs/pipelines/configure/environment-variables
    """

    has_run: bool
    failures: tuple[int, ...] = ()
    is_cancelled: bool = False
    is_timed_out: bool = False
    command_status: int | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "JobEnd":
        """The end of the job of `environ`; the agent leaves out what did not happen."""
        command = _status(environ, "BUILDKITE_COMMAND_EXIT_STATUS")
        hook = _status(environ, "BUILDKITE_LAST_HOOK_EXIT_STATUS")
        return cls(
            has_run=command is not None,
            failures=tuple(status for status in (command, hook) if status),
            is_cancelled=environ.get("BUILDKITE_JOB_CANCELLED") == "true",
            is_timed_out=environ.get("BUILDKITE_JOB_TIMED_OUT") == "true",
            command_status=command,
        )


def explains(report: Report, status: int) -> bool:
    """Whether `report` is of a command that judged something, or failed itself, and gave `status`.

    So is that of `run --diagnose --exit-code-by-class` if it chose the status. What hands on the
    status of a command without a word about it explains nothing.
    """
    if report.exit_code != status or report.command == "diagnose":
        return False
    if report.verdict is not None or report.error is not None:
        return True
    return report.facts.get("exit_code", status) not in {status, None}


def worst_verdict(reports: Sequence[Report], end: JobEnd | None = None) -> str:
    """The most urgent verdict of a job; `end` is None while its command still runs.

    A failure that no report ends with is one that ci-doctor did not see: `failed`, or `infra` if
    its diagnosis says so. A job without a report has proven nothing.
    """
    verdicts = [str(each.verdict or NO_VERDICT) for each in reports if not _is_diagnosis(each)]
    if end is not None:
        verdicts += _of_the_end(reports, end)
    return str(worst(verdicts))


def _is_diagnosis(report: Report) -> bool:
    """Whether it judges nothing, and only says why something failed."""
    return report.verdict is None and report.error is None


def _of_the_end(reports: Sequence[Report], end: JobEnd) -> list[str]:
    if end.is_cancelled or end.is_timed_out:
        return [NO_VERDICT]
    if end.failures:
        # A report that only diagnoses may explain the status, and has no verdict to stand for it.
        judged = [each for each in reports if not _is_diagnosis(each)]
        if any(explains(each, status) for each in judged for status in end.failures):
            return []
        return [Verdict.INFRA if _lies_outside(reports, end) else Verdict.FAILED]
    return [] if end.has_run else [NO_VERDICT]


def _lies_outside(reports: Sequence[Report], end: JobEnd) -> bool:
    """Whether all that was diagnosed lies outside the change, and another run helps."""
    if not end.command_status or end.command_status in ENDED_FROM_OUTSIDE:
        return False
    status = end.command_status
    # The report that chose the status stands.
    causes = list(diagnosed_causes([each for each in reports if explains(each, status)] or reports))
    return bool(causes) and all(cause.may_be_retried for cause in causes)


def _status(environ: Mapping[str, str], name: str) -> int | None:
    # -1 stands for a command that a signal ended.
    try:
        return int(environ.get(name, ""))
    except ValueError:
        return None

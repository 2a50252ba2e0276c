# SPDX-License-Identifier: Apache-2.0
"""Pure. The exit status that a failed command gets by its cause.

A retry must never hide a regression, so every doubt leaves the status as it is. A hook hands a
status on by `export BUILDKITE_COMMAND_EXIT_STATUS=N` (docs/buildkite.md).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.buildkite.job import ENDED_FROM_OUTSIDE, JobEnd, explains
from ci_doctor.diagnosis.log_rules import LAST_OUTPUT
from ci_doctor.model.cause import LIKELY, Cause, RetryPolicy
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import Verdict

_WORST_STATUS: Final = 255
_OF_THE_AGENT: Final = 125
# What a command judged stands, also if a script or make(1) ended with a status of its own for it.
_NO_RETRY: Final = frozenset(
    {
        Verdict.REGRESSION,
        Verdict.FAILED,
        Verdict.NONDETERMINISTIC,
        Verdict.INCONCLUSIVE,
        Verdict.VOID,
    }
)


class FailedCommand(Struct, frozen=True, kw_only=True):
    """What the decision rests on.

    end: how the job stands, with the status of its command. reports: those of ci-doctor's commands
    in this job. causes: what all diagnoses of the job name. is_named: the diagnosis of the logs at
    hand names a cause. codes: the repository's exit codes by verdict.
    """

    end: JobEnd
    reports: Sequence[Report]
    causes: Sequence[Cause]
    is_named: bool
    codes: Mapping[str, int]


class ExitDecision(Struct, frozen=True, kw_only=True):
    """`status` is the new one, None to leave it; `reason` is a sentence without a full stop."""

    status: int | None
    reason: str


def decide(failed: FailedCommand) -> ExitDecision:
    """The status to end with."""
    status = failed.end.command_status
    reason = _untouchable(failed)
    if status is None or reason is not None:
        return ExitDecision(status=None, reason=reason or "the command did not run")
    infra = failed.codes[Verdict.INFRA]
    causes = failed.causes
    if failed.is_named and causes and all(cause.may_be_retried for cause in causes):
        # What a report says no retry may hide.
        for report in failed.reports:
            if report.verdict in _NO_RETRY:
                judged = f"the verdict of `ci-doctor {report.command}` is {report.verdict}"
                return ExitDecision(status=None, reason=judged)
        cause = _named(causes[-1])
        return _changed(status, infra, f"{cause} lies outside the change, and another run helps")
    retried = {infra: "is retried", failed.codes[Verdict.NONDETERMINISTIC]: "passes as a soft fail"}
    useless = [cause for cause in causes if _lies_inside(cause)]
    if status in retried and useless:
        reason = f"{status} {retried[status]}, and that could hide {_named(useless[-1])}"
        return _changed(status, failed.codes[Verdict.FAILED], reason)
    doubt = "the logs do not prove that the cause lies outside the change"
    if not failed.is_named:
        doubt = "no cause is named"
    elif any(cause.retry == RetryPolicy.NO for cause in causes):
        doubt = "no log shows that another run helps"
    return ExitDecision(status=None, reason=doubt)


def _untouchable(failed: FailedCommand) -> str | None:
    """Why the status is not ours to change; None if it may be."""
    end = failed.end
    if end.is_cancelled or end.is_timed_out:
        return "the job was cancelled, or timed out"
    status = end.command_status
    if not status:
        return "the command did not fail"
    for report in failed.reports:
        if explains(report, status):
            return f"`ci-doctor {report.command}` ended with it"
    if status in ENDED_FROM_OUTSIDE:
        return "a signal or a time limit ended the command, and no log says why"
    return None


def _lies_inside(cause: Cause) -> bool:
    """Whether a cause asks for no other run; last words that no rule knows are no proof."""
    if cause.rule == LAST_OUTPUT.id:
        return False
    is_inside = cause.retry == RetryPolicy.NO or cause.is_of_test
    return is_inside and not cause.is_outside and (cause.confidence or 0.0) >= LIKELY


def _named(cause: Cause) -> str:
    return f"the cause ({cause.title}, {cause.where})"


def _changed(status: int, new: int, reason: str) -> ExitDecision:
    if new == status:
        return ExitDecision(status=None, reason=f"it is the code already: {reason}")
    if not 1 <= new <= _WORST_STATUS or new == _OF_THE_AGENT:
        return ExitDecision(status=None, reason=f"{new} is no exit code for it")
    return ExitDecision(status=new, reason=reason)

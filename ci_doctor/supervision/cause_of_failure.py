# SPDX-License-Identifier: Apache-2.0
"""Reads the log of a failed command for its cause. What goes wrong here changes no exit code."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.diagnosis.cause import Cause, Diagnosis
from ci_doctor.diagnosis.failure_class import POLICIES, RetryPolicy
from ci_doctor.errors import CiDoctorError, Terminated
from ci_doctor.model.finding import Finding


class CauseOfFailure(Struct, frozen=True, kw_only=True):
    """`diagnosis` with its `findings`, or a sentence on why there is none.

    retry_helps: the cause lies outside the change, and by the policy of its class another run helps.
    """

    diagnosis: Diagnosis | None = None
    findings: tuple[Finding, ...] = ()
    retry_helps: bool = False
    problem: str | None = None


def find_cause(log: Path, rules: Sequence[Path]) -> CauseOfFailure:
    """The diagnosis of `log`. A signal gives it up: the command that it was for has ended."""
    try:
        from ci_doctor.diagnosis.diagnosis import diagnose, load_rules

        diagnosis = diagnose([str(log)], load_rules(tuple(rules)))
        if diagnosis.unreadable:
            return CauseOfFailure(problem="no diagnosis: the log cannot be read")
        return CauseOfFailure(diagnosis=diagnosis, retry_helps=retry_helps(diagnosis.cause))
    except (KeyboardInterrupt, Terminated):
        return CauseOfFailure(problem="the diagnosis was interrupted")
    except CiDoctorError as error:
        return CauseOfFailure(problem=f"no diagnosis: {error.message}")
    except Exception as error:  # noqa: BLE001 - the command's own status must come through
        return CauseOfFailure(problem=f"no diagnosis: {type(error).__name__}: {error}")


def retry_helps(cause: Cause | None) -> bool:
    """Whether the cause lies outside the change, and by the policy of its class another run helps."""
    if cause is None or cause.class_ is None:
        return False
    policy = POLICIES[cause.class_]
    is_outside = cause.is_outside or policy.is_outside
    return is_outside and policy.retry is RetryPolicy.YES

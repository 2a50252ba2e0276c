# SPDX-License-Identifier: Apache-2.0
"""Pure. The exit status that a named cause asks for: whether a pipeline may retry by it.

A retry must never hide a regression. So a log asks for one only if another run cures the class of
its cause, if the evidence proves that the cause lies outside the change (`outside.py`), and if the
job ended by it (`aftermath.py`).
"""

from ci_doctor.diagnosis.cause import Cause
from ci_doctor.diagnosis.failure_class import POLICIES, FailureClass, RetryPolicy
from ci_doctor.diagnosis.outside import is_lasting
from ci_doctor.model.verdict import Verdict


def retry_policy(class_: FailureClass | None, text: str) -> RetryPolicy:
    """Whether another run can help a failure of `class_`, of which `text` is the line."""
    if class_ is None:
        return RetryPolicy.ASK
    if is_lasting(class_, text):
        return RetryPolicy.NO
    return POLICIES[class_].retry


def policy_of(cause: Cause) -> RetryPolicy:
    """The same for a cause that is named."""
    return retry_policy(cause.class_, cause.place.text)


def may_be_retried(cause: Cause | None) -> bool:
    """Whether the exit code by class is that of `infra`, 75; no cause is none to retry for."""
    if cause is None or policy_of(cause) is not RetryPolicy.YES:
        return False
    # A job that survived the line failed by something else, perhaps by the change.
    return cause.is_outside and cause.is_final


def verdict_by_class(cause: Cause | None) -> Verdict:
    """The verdict whose exit code stands for `cause`: `infra` (75), else `failed` (1).

    It chooses an exit code and is no verdict of the report: a diagnosis judges nothing. A
    repository's own `[exit-codes]` hold for it.
    """
    if may_be_retried(cause):
        return Verdict.INFRA
    return Verdict.FAILED

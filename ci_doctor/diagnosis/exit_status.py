# SPDX-License-Identifier: Apache-2.0
"""Pure. What a named cause asks for: whether a pipeline may retry by it, who acts, what speaks against it.

A retry must never hide a regression. So a log asks for one only if another run cures the class of
its cause, if the evidence proves that the cause lies outside the change (`outside.py`), and if the
job ended by it (`aftermath.py`).
"""

from msgspec import structs

from ci_doctor.diagnosis.last_output import LAST_OUTPUT
from ci_doctor.diagnosis.outside import is_lasting
from ci_doctor.model.cause import POLICIES, Cause, Owner, RetryPolicy, owner_of
from ci_doctor.model.verdict import Verdict

_UNPROVEN = "the log does not prove that it lies outside the change"
_NOT_FINAL = "something else may have ended the job"


def retry_policy(class_: str | None, text: str) -> RetryPolicy:
    """Whether another run can help a failure of `class_`, of which `text` is the line."""
    if class_ is None:
        return RetryPolicy.ASK
    if is_lasting(class_, text):
        return RetryPolicy.NO
    return POLICIES[class_].retry


def judged(cause: Cause, *, is_outside: bool, is_final: bool) -> Cause:
    """`cause` with what is known of the job's end, and all that follows from it."""
    owner = owner_of(cause.class_, cause.retry, is_outside=is_outside)
    # Last words that no rule knows prove nothing.
    if cause.rule == LAST_OUTPUT.id:
        owner = Owner.UNKNOWN
    against = []
    if cause.retry is RetryPolicy.YES and not is_outside:
        against.append(_UNPROVEN)
    if not is_final:
        against.append(_NOT_FINAL)
    return structs.replace(
        cause, is_outside=is_outside, is_final=is_final, owner=owner, against=tuple(against)
    )


def verdict_by_class(cause: Cause | None) -> Verdict:
    """The verdict whose exit code stands for `cause`: `infra` (75), else `failed` (1).

    It chooses an exit code and is no verdict of the report: a diagnosis judges nothing. A
    repository's own `[exit-codes]` hold for it.
    """
    return Verdict.INFRA if cause is not None and cause.may_be_retried else Verdict.FAILED

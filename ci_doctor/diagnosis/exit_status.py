# SPDX-License-Identifier: Apache-2.0
"""Pure. The exit status that a named cause asks for: whether a pipeline may retry by it.

A retry must never hide a regression. So a log's text alone asks for one only if the class of its
cause is cured by another run *and* the line shows something outside the change under test.
"""

import re
from typing import Final

from ci_doctor.diagnosis.diagnosis import Cause
from ci_doctor.diagnosis.failure_class import POLICIES, FailureClass, RetryPolicy
from ci_doctor.model.verdict import Verdict

# Text cannot tell here whether the change is at fault, whatever a rule says of its line.
_NEVER: Final = frozenset(
    {
        FailureClass.HOST_OUT_OF_MEMORY,
        FailureClass.TIMEOUT,
        FailureClass.STALLED,
        FailureClass.CUDA_ERROR,
        FailureClass.RENDEZVOUS,
        FailureClass.IMPORT_RACE,
    }
)
# A peer on this machine was started by the job itself, perhaps by the change.
_LOCAL: Final = re.compile(r"\b(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0)\b|\[?::1\]?[:\s/,)]")
_REMOTE: Final = frozenset({FailureClass.NETWORK, FailureClass.REGISTRY})


def retry_policy(cause: Cause) -> RetryPolicy:
    """Whether another run can help: the policy of the class, but for memory of another's."""
    if cause.class_ is None:
        return RetryPolicy.ASK
    # Another process's memory is free again when that one ends.
    if cause.class_ is FailureClass.GPU_OUT_OF_MEMORY and cause.is_outside:
        return RetryPolicy.YES
    return POLICIES[cause.class_].retry


def lies_outside(cause: Cause) -> bool:
    """Whether the line shows a cause outside the change: its rule says so, or its class."""
    if cause.class_ is None:
        return False
    if cause.class_ in _REMOTE and _LOCAL.search(cause.place.text) is not None:
        return False
    return cause.is_outside or POLICIES[cause.class_].is_outside


def may_be_retried(cause: Cause | None) -> bool:
    """Whether the exit code by class is that of `infra`, 75; no cause is none to retry for."""
    if cause is None or cause.class_ in _NEVER:
        return False
    return retry_policy(cause) is RetryPolicy.YES and lies_outside(cause)


def verdict_by_class(cause: Cause | None) -> Verdict:
    """The verdict whose exit code stands for `cause`: `infra` (75), else `failed` (1).

    It chooses an exit code and is no verdict of the report: a diagnosis judges nothing. A
    repository's own `[exit-codes]` hold for it.
    """
    if may_be_retried(cause):
        return Verdict.INFRA
    return Verdict.FAILED

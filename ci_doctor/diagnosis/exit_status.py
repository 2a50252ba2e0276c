# SPDX-License-Identifier: Apache-2.0
"""Pure. The exit status that a named cause asks for: whether a pipeline may retry by it.

A retry must never hide a regression. So a log's text alone asks for one only if the class of its
cause is cured by another run *and* the line shows something outside the change under test.
"""

import re
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.cause import Cause
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
# An assertion may be about the words, and a line of its source may hold them.
_ASSERTED: Final = re.compile(r"\bassert|AssertionError|\bexpect(?:ed\b|\()|^> ", re.IGNORECASE)
_REMOTE: Final = frozenset({FailureClass.NETWORK, FailureClass.REGISTRY})


class RetryEvidence(Struct, frozen=True, kw_only=True):
    """What the question rests on: the class of a failure, and its line.

    says_outside: the line's rule says that it shows something outside the change. is_final: the
    job ended by it, as far as its logs tell.
    """

    class_: FailureClass | None
    says_outside: bool
    text: str
    is_final: bool


def evidence_of(cause: Cause) -> RetryEvidence:
    """What is known of `cause`."""
    return RetryEvidence(
        class_=cause.class_,
        says_outside=cause.is_outside,
        text=cause.place.text,
        is_final=cause.is_final,
    )


def retry_policy(evidence: RetryEvidence) -> RetryPolicy:
    """Whether another run can help: the policy of the class, but for memory of another's."""
    if evidence.class_ is None:
        return RetryPolicy.ASK
    # Another process's memory is free again when that one ends.
    if evidence.class_ is FailureClass.GPU_OUT_OF_MEMORY and evidence.says_outside:
        return RetryPolicy.YES
    return POLICIES[evidence.class_].retry


def lies_outside(evidence: RetryEvidence) -> bool:
    """Whether the line shows a cause outside the change: its rule says so, or its class."""
    if evidence.class_ is None or _ASSERTED.search(evidence.text) is not None:
        return False
    if evidence.class_ in _REMOTE and _LOCAL.search(evidence.text) is not None:
        return False
    return evidence.says_outside or POLICIES[evidence.class_].is_outside


def can_be_retried(evidence: RetryEvidence) -> bool:
    """Whether another run helps, and nothing in the change can have brought the line about."""
    # A job that survived the line failed by something else, perhaps by the change.
    if evidence.class_ in _NEVER or not evidence.is_final:
        return False
    return retry_policy(evidence) is RetryPolicy.YES and lies_outside(evidence)


def may_be_retried(cause: Cause | None) -> bool:
    """Whether the exit code by class is that of `infra`, 75; no cause is none to retry for."""
    return cause is not None and can_be_retried(evidence_of(cause))


def verdict_by_class(cause: Cause | None) -> Verdict:
    """The verdict whose exit code stands for `cause`: `infra` (75), else `failed` (1).

    It chooses an exit code and is no verdict of the report: a diagnosis judges nothing. A
    repository's own `[exit-codes]` hold for it.
    """
    if may_be_retried(cause):
        return Verdict.INFRA
    return Verdict.FAILED

# SPDX-License-Identifier: Apache-2.0
"""Pure. A cause in words: its class, how sure it is, and whether another run can help."""

from typing import Final, assert_never

from ci_doctor.diagnosis.failure_class import POLICIES, FailureClass, RetryPolicy

# From which confidence on a word holds, the strongest first.
_LIKELIHOODS: Final = (
    (0.9, "very likely"),
    (0.7, "likely"),
    (0.5, "more likely than not"),
)
_LEAST_LIKELY: Final = "one possibility among others"


def title(class_: FailureClass | None) -> str:
    """The class in words."""
    if class_ is None:
        return "no class"
    return POLICIES[class_].title


def likelihood(confidence: float) -> str:
    """A confidence, 0 to 1, in words."""
    for least, words in _LIKELIHOODS:
        if confidence >= least:
            return words
    return _LEAST_LIKELY


def about_retry(policy: RetryPolicy, *, is_proven: bool) -> str:
    """Whether another run can help, as a sentence.

    is_proven: the evidence proves that the cause lies outside the change.
    """
    if is_proven:
        return "Another run can help: the cause lies outside the change."
    match policy:
        case RetryPolicy.YES:
            return (
                "Another run may pass, but the log does not prove that the change is not at fault."
            )
        case RetryPolicy.NO:
            return "Another run is useless: it fails again."
        case RetryPolicy.ASK:
            return (
                "Ask a person before another run: the log does not tell whether the change is at "
                "fault."
            )
        case _ as never:
            assert_never(never)

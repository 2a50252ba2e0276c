# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a retry made sense."""

from collections.abc import Sequence
from itertools import pairwise

from ci_doctor.build.job_attempt import JobAttempt
from ci_doctor.build.steps import BuildStep
from ci_doctor.model.facts.build import RetryWorth
from ci_doctor.model.verdict import MISSING, NO_VERDICT, Verdict, is_green, worst

_UNJUDGED = frozenset({MISSING, NO_VERDICT})


def lies_outside(attempt: JobAttempt) -> bool:
    """Whether the attempt failed by a cause outside the change, and another run helps."""
    if attempt.cause is not None:
        return attempt.cause.may_be_retried
    return attempt.facts.verdict == Verdict.INFRA


def worth_of_retry(attempt: JobAttempt, following: Sequence[JobAttempt]) -> RetryWorth | None:
    """What the next attempt was good for; `following` are the jobs that claim to be it.

    None if there is none, or if `attempt` had passed.
    """
    if not following or not attempt.has_failed:
        return None
    result = worst(each.facts.verdict for each in following)
    if result in _UNJUDGED:
        return RetryWorth.UNKNOWN
    if not is_green(result):
        return RetryWorth.IN_VAIN
    if lies_outside(attempt):
        return RetryWorth.HELPED
    # Cancelled, or no report of it: nobody knows whether there was a failure to hide.
    if attempt.facts.verdict in _UNJUDGED and attempt.cause is None:
        return RetryWorth.UNKNOWN
    return RetryWorth.HID_A_FAILURE


def worths_of_retries(step: BuildStep) -> dict[str, RetryWorth]:
    """The worth of the retry after each attempt that failed, by the attempt's place and job."""
    numbers = sorted({each.facts.attempt for each in step.attempts})
    by_number = {
        number: [each for each in step.attempts if each.facts.attempt == number]
        for number in numbers
    }
    worths = {}
    for number, after in pairwise(numbers):
        for attempt in by_number[number]:
            worth = worth_of_retry(attempt, by_number[after])
            if worth is not None:
                worths[attempt_id(attempt)] = worth
    return worths


def attempt_id(attempt: JobAttempt) -> str:
    """A text that no other attempt has."""
    return f"{attempt.facts.job or ''} {attempt.place}"

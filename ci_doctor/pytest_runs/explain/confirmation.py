# SPDX-License-Identifier: Apache-2.0
"""Whether a condition decides how a test ends: runs with it and without it, in mixed order. Pure."""

from collections.abc import Generator

from ci_doctor.pytest_runs.explain.statistics import LEVEL, MORE_PAIRS, PAIRS, fisher, schedule
from ci_doctor.pytest_runs.explain.trial import Ending, FlakyTrial, TrialResult


def strictly(
    cause: FlakyTrial, control: FlakyTrial, expected: Ending
) -> Generator[FlakyTrial, TrialResult, bool]:
    """Whether `cause` ends as `expected` and `control` in the opposite way, five times of five.

    The first trial that ends otherwise decides against it.
    """
    for is_cause in schedule(PAIRS):
        result = yield cause if is_cause else control
        if result.ending is not (expected if is_cause else expected.opposite):
            return False
    return True


def mostly(
    cause: FlakyTrial, control: FlakyTrial, expected: Ending
) -> Generator[FlakyTrial, TrialResult, bool]:
    """Whether `cause` ends as `expected` more often than `control` does.

    For conditions that make an ending likely, not certain. It is decided after five pairs that all
    agree, or else after twelve pairs by an exact test.
    """
    hits = 0
    misses = 0
    for index, is_cause in enumerate(schedule(MORE_PAIRS), start=1):
        result = yield cause if is_cause else control
        is_hit = result.ending is expected
        if is_cause:
            hits += is_hit
        else:
            misses += is_hit
        if index == 2 * PAIRS:
            if hits == PAIRS and misses == 0:
                return True
            if hits - misses < 2:
                return False
    return fisher(hits, misses, MORE_PAIRS) <= LEVEL

# SPDX-License-Identifier: Apache-2.0
"""Which starts gave equal answers to a request. Pure.

All that a verdict asks of an answer is whether it equals another one. Requests on which the same
starts agree are one pattern, so thousands of requests are often a handful of patterns.
"""

from collections.abc import Mapping, Sequence
from itertools import count

from ci_doctor.correctness.verdict.compare import Answer, ArmStart

# The class of a missing answer.
MISSING = -1

# A class for each start: 0 for the first start's answer, 1 for the next other one, and so on.
Pattern = tuple[int, ...]
Patterns = Mapping[Pattern, Sequence[str]]


def pattern(outcomes: Sequence[Answer]) -> Pattern:
    """The classes of equal outcomes, one a start. A missing answer (None) is MISSING."""
    different = dict.fromkeys(outcomes)
    different.pop(None, None)
    classes: dict[Answer, int] = dict(zip(different, count(), strict=False))
    classes[None] = MISSING
    return tuple(map(classes.__getitem__, outcomes))


def patterns(starts: Sequence[ArmStart], requests: Sequence[str]) -> Patterns:
    """The requests by their pattern over `starts`."""
    by_start = [map(start.answers.get, requests) for start in starts]
    all_equal = (0,) * len(starts)
    by_pattern: dict[Pattern, list[str]] = {}
    for request, *outcomes in zip(requests, *by_start, strict=True):
        first = outcomes[0] if outcomes else None
        # Most requests are: without this a verdict over many takes three times as long.
        is_equal = first is not None and outcomes.count(first) == len(outcomes)
        classes = all_equal if is_equal else pattern(outcomes)
        by_pattern.setdefault(classes, []).append(request)
    return by_pattern


def among(by_pattern: Patterns, places: Sequence[int]) -> Patterns:
    """The requests by their pattern over the starts at these places alone, in this order."""
    chosen: dict[Pattern, list[str]] = {}
    for each, requests in by_pattern.items():
        answers = [None if each[place] == MISSING else str(each[place]) for place in places]
        chosen.setdefault(pattern(answers), []).extend(requests)
    return chosen

# SPDX-License-Identifier: Apache-2.0
"""Which answers are the same within a limit. Pure.

Being near is not transitive: 0.1 is near 0.2, 0.2 is near 0.3, and 0.1 may not be near 0.3. So the
answers to a request are taken in the order in which they were given. The first is an outcome. Each
later one belongs to the earliest outcome whose first answer it is near, or else is a new outcome.
The labels of the arms play no part in it, so a permutation of the labels leaves it as it is.
"""

from collections.abc import Mapping
from typing import Any

from ci_doctor.correctness.comparison import NumberLimit
from ci_doctor.load.answer_items import AnswerParts, parts
from ci_doctor.load.canonical import encode

Outputs = Mapping[str, Mapping[str, Any]]


class NearAnswers:
    """The outcomes of each request so far, by the digest of the first answer of each.

    Only digests are kept. `outputs` holds the answers by their digests.
    """

    def __init__(self, limit: NumberLimit, outputs: Outputs) -> None:
        self._limit = limit
        self._outputs = outputs
        self._firsts: dict[str, list[str]] = {}

    def outcome(self, request: str, digest: str) -> str:
        """The outcome that an answer belongs to. Raises what a look-up in `outputs` raises."""
        firsts = self._firsts.setdefault(request, [])
        # Nearly always: then nothing is read.
        if digest in firsts:
            return digest
        if firsts:
            answer = parts(self._outputs[digest])
            for first in firsts:
                if are_near(answer, parts(self._outputs[first]), self._limit):
                    return first
        firsts.append(digest)
        return digest


def are_near(left: AnswerParts, right: AnswerParts, limit: NumberLimit) -> bool:
    """Whether words and tokens are the same, and every number is within the limit."""
    if not limit.allows(left.numbers, right.numbers):
        return False
    if len(left.alternatives) != len(right.alternatives):
        return False
    for ours, theirs in zip(left.alternatives, right.alternatives, strict=True):
        if not _list_alike(ours, theirs, limit):
            return False
    return encode([left.words, left.tokens]) == encode([right.words, right.tokens])


def _list_alike(left: Mapping[str, float], right: Mapping[str, float], limit: NumberLimit) -> bool:
    """Whether two lists of alternatives are the same within the limit.

    A token that only one side lists may have been the last of the other: it is then at most as
    probable there as the least probable one listed, and its distance is at least the one to that.
    """
    if not left or not right:
        return not left and not right
    common = [token for token in left if token in right]
    if not limit.allows([left[each] for each in common], [right[each] for each in common]):
        return False
    return _rest_is_near(left, right, limit) and _rest_is_near(right, left, limit)


def _rest_is_near(
    listed: Mapping[str, float], other: Mapping[str, float], limit: NumberLimit
) -> bool:
    least = min(other.values())
    alone = [number for token, number in listed.items() if token not in other]
    above = [number for number in alone if number > least]
    return limit.allows(above, [least] * len(above))

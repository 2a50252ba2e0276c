# SPDX-License-Identifier: Apache-2.0
"""When one start shows a difference: by the answers that the baseline's starts have given. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.verdict.starts import Answer, ArmStart

# An answer of the baseline is one that two of its starts gave: one alone may be the very flake.
_TWICE = 2
# A request that more of the baseline's starts answer otherwise tells little.
_NOISY = 1 / 3


class Watched(Struct, frozen=True, kw_only=True):
    """The baseline's answers to each request that is watched, and how many requests are not."""

    answers: Mapping[str, frozenset[Answer]]
    noisy: int = 0

    def differing(self, start: ArmStart) -> tuple[str, ...]:
        """The watched requests that the start answers otherwise, or not at all."""
        return tuple(
            request
            for request, accepted in self.answers.items()
            if start.answers.get(request) not in accepted
        )


def watched(requests: Sequence[str], good: Sequence[ArmStart], bad: Sequence[ArmStart]) -> Watched:
    """What is watched after some starts of both ends.

    An answer is the baseline's if two of its starts gave it, and no smaller share of them than of the
    other end's: a fault that shows in a good start, too, is none of its answers. A request that more than
    a third of the baseline's starts answer otherwise is not watched.
    """
    answers: dict[str, frozenset[Answer]] = {}
    noisy = 0
    for request in requests:
        ours = Counter(start.answers.get(request) for start in good)
        theirs = Counter(start.answers.get(request) for start in bad)
        accepted = frozenset(
            answer
            for answer, count in ours.items()
            if answer is not None
            and count >= _TWICE
            and count * max(1, len(bad)) >= theirs[answer] * len(good)
        )
        others = sum(count for answer, count in ours.items() if answer not in accepted)
        if not accepted or others > _NOISY * len(good):
            noisy += 1
        else:
            answers[request] = accepted
    return Watched(answers=answers, noisy=noisy)

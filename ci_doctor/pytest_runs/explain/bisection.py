# SPDX-License-Identifier: Apache-2.0
"""Which few of many candidates are enough to bring about an ending. Pure.

Candidates are the tests before a suspect, or the items of state that they leave.
"""

from collections.abc import Callable, Generator, Sequence

from ci_doctor.pytest_runs.explain.trial import Ending, FlakyTrial, TrialResult

Candidates = tuple[str, ...]
TrialOf = Callable[[Candidates], FlakyTrial]
Search = Generator[FlakyTrial, TrialResult, Candidates]


def one_of(candidates: Sequence[str], trial_of: TrialOf, wanted: Ending) -> Search:
    """The one candidate that is enough, in ceil(log2(n)) trials for n candidates.

    It takes for granted that there is one: a half that is not enough leaves the other half. The
    caller checks the result, which is wrong if several candidates are needed together.
    """
    left = tuple(candidates)
    while len(left) > 1:
        middle = len(left) // 2
        # The later half first: what runs last is the least likely to have been undone.
        result = yield trial_of(left[middle:])
        left = left[middle:] if result.ending is wanted else left[:middle]
    return left


def some_of(candidates: Sequence[str], trial_of: TrialOf, wanted: Ending) -> Search:
    """A small set that is enough, none of which can be left out.

    The algorithm is ddmin of Zeller & Hildebrandt, "Simplifying and isolating failure-inducing
    input" (IEEE TSE 28(2), 2002, doi:10.1109/32.988498): O(n^2) trials at worst.
    """
    left = tuple(candidates)
    # Smaller parts meet the same subsets again.
    insufficient: set[Candidates] = set()
    parts = 2
    while len(left) > 1:
        smaller = yield from _smaller(left, parts, insufficient, trial_of, wanted)
        if smaller is not None:
            is_part = len(smaller) <= -(-len(left) // parts)
            left = smaller
            parts = 2 if is_part else max(2, parts - 1)
        elif parts >= len(left):
            break
        else:
            parts = min(len(left), 2 * parts)
    return left


def _smaller(
    left: Candidates, parts: int, insufficient: set[Candidates], trial_of: TrialOf, wanted: Ending
) -> Generator[FlakyTrial, TrialResult, Candidates | None]:
    """One part of `left` that is enough, or all but one part; None if there is none.

    Subsets in `insufficient` are not tried; those that turn out so are added.
    """
    size = -(-len(left) // parts)
    chunks = [left[begin : begin + size] for begin in range(0, len(left), size)]
    rests = [left[:begin] + left[begin + size :] for begin in range(0, len(left), size)]
    # Of two parts each is the rest of the other.
    tries = [*reversed(chunks), *(rests if len(chunks) > 2 else [])]
    for subset in tries:
        if subset in insufficient:
            continue
        result = yield trial_of(subset)
        if result.ending is wanted:
            return subset
        insufficient.add(subset)
    return None

# SPDX-License-Identifier: Apache-2.0
"""The blocks in which the arms are started, and the order within them. Pure.

In a block both arms have a fixed number of starts, in random order. Then the labels of the starts
are chance by design, whatever the machine does over time (permuted blocks: Rosenberger & Lachin,
Randomization in Clinical Trials, 2016, 3). No start is ever pulled forward: an order that depends
on earlier answers would make the test read time as a change.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.labelings import smallest_p
from ci_doctor.correctness.verdict.spending import spent_by

# Between two looks there are so many starts at least: fewer show nothing new.
_APART = 3
# Looks after the first one, beside the end of all.
_SECOND_LOOK = 12
_FURTHER = 8
# Fewer starts of an arm show no "always", and test nothing.
FEWEST = 2
# A design is widened by so many starts at most.
_WIDER = 64


class StartBlock(Struct, frozen=True, kw_only=True):
    """How many starts of each arm a block has."""

    baseline: int
    candidate: int

    @property
    def size(self) -> int:
        """Starts of both arms."""
        return self.baseline + self.candidate

    def of(self, arm: Arm) -> int:
        """Starts of one arm."""
        return self.baseline if arm is Arm.BASELINE else self.candidate

    def beyond(self, earlier: "StartBlock") -> "StartBlock":
        """What is left without the `earlier` starts."""
        return StartBlock(
            baseline=self.baseline - earlier.baseline, candidate=self.candidate - earlier.candidate
        )


_NOTHING = StartBlock(baseline=0, candidate=0)


@lru_cache(maxsize=256)
def _planned(
    first: StartBlock, alpha: float, limits: tuple[int, ...]
) -> tuple[tuple[StartBlock, ...], tuple[int, ...]]:
    """The blocks, and the indices of those at whose end a regression may be declared."""
    ends = [first]
    for limit in limits:
        ends.extend(_ends(first, ends[-1], alpha, limit, is_first=limit == limits[0]))
    plan = [end.beyond(before) for before, end in zip([_NOTHING, *ends], ends, strict=False)]
    looks = list(range(1, len(ends)))
    # The first block is there for `pass`. It is a look only if it can decide something.
    if not looks or _p_at(ends[:1]) <= spent_by(alpha, first.size, limits[-1]):
        looks = [0, *looks]
    return tuple(plan), tuple(looks)


def blocks(rules: Rules, *, archived: bool) -> tuple[StartBlock, ...]:
    """The blocks of an experiment, at most `max_starts` starts in all.

    The first block holds what may be enough for `pass`: one start of each arm, or as many as the
    rules require. If archived baseline starts stand beside them, it holds the candidate's alone.
    """
    return _planned(_first(rules, archived=archived), rules.alpha, rules.limits)[0]


def looks_after(rules: Rules, *, archived: bool) -> tuple[int, ...]:
    """The indices of the blocks at whose end a regression may be declared."""
    return _planned(_first(rules, archived=archived), rules.alpha, rules.limits)[1]


def widened(rules: Rules, *, archived: bool) -> Rules:
    """`rules` with the least `max_starts`, at least their own, with which a regression can be declared.

    Raises ValueError if none can: the test draws 2,000 labelings, and no p-value is below 1/2,001.
    """
    first = _first(rules, archived=archived)
    least = max(rules.max_starts, first.size)
    for most in range(least, least + _WIDER):
        if _first_look(first, rules.alpha, most) is not None:
            return replace(rules, max_starts=most)
    raise ValueError(f"no number of starts decides at alpha {rules.alpha:g}")


def _first(rules: Rules, *, archived: bool) -> StartBlock:
    baseline = 0 if archived else rules.least_baselines
    return StartBlock(baseline=baseline, candidate=rules.least_candidates)


def _ends(
    first: StartBlock, made: StartBlock, alpha: float, most: int, *, is_first: bool
) -> Iterator[StartBlock]:
    """The starts of both arms after each further block, under one limit of the run.

    A run that goes on beyond a limit keeps the blocks that it made: the labels were drawn in them.
    """
    ends = [made]
    sizes = [_SECOND_LOOK, *range(2 * _FURTHER, most, _FURTHER)]
    if is_first:
        look = _first_look(first, alpha, most)
        if look is None or look.size + _APART > most:
            # A block more would only take labelings from the one look there is.
            sizes = []
        elif look.size > made.size:
            ends.append(look)
    for size in sizes:
        if ends[-1].size + _APART <= size <= most - _APART:
            ends.append(_best_end(ends, size))
    if most > ends[-1].size:
        ends.append(_best_end(ends, most))
    yield from ends[1:]


def _best_end(ends: Sequence[StartBlock], size: int) -> StartBlock:
    """So many starts in all after these ends: with the least p-value, and as even as may be."""
    made = ends[-1]
    every = [
        StartBlock(baseline=baseline, candidate=size - baseline)
        for baseline in range(made.baseline, size - made.candidate + 1)
    ]

    def rank(end: StartBlock) -> tuple[float, int, int]:
        return _p_at((*ends, end)), abs(end.baseline - end.candidate), -end.candidate

    return min(every, key=rank)


def _first_look(first: StartBlock, alpha: float, most: int) -> StartBlock | None:
    """The fewest starts after which an answer that separates the arms is a regression.

    Unequal arms decide earlier than equal ones, where each labeling has a mirror image that is as
    extreme: 4 and 5 starts do, after a first pair. None if `most` starts cannot.
    """
    for size in range(max(first.size, 2), most + 1):
        best = _best_end((first,), size)
        if _p_at((first, best)) <= spent_by(alpha, size, most):
            return best
    return None


def _p_at(ends: Sequence[StartBlock]) -> float:
    """The least p-value at the last of these ends; 1 where an arm has too few starts for a test."""
    if min(ends[-1].baseline, ends[-1].candidate) < FEWEST:
        return 1.0
    parts = [end.beyond(before) for before, end in zip([_NOTHING, *ends], ends, strict=False)]
    return smallest_p([(part.size, part.candidate) for part in parts])


def next_in_order(plan: Sequence[StartBlock], made: Mapping[Arm, int], seed: int) -> Arm | None:
    """The arm to start next; None if every block is full.

    A fair draw among the starts that are left in the block. It depends on the seed and on the
    number of starts alone, so a run that is resumed goes on in the same order.
    """
    baseline = made.get(Arm.BASELINE, 0)
    candidate = made.get(Arm.CANDIDATE, 0)
    for block in plan:
        left = StartBlock(
            baseline=max(0, block.baseline - baseline),
            candidate=max(0, block.candidate - candidate),
        )
        if left.size:
            index = sum(made.values())
            draw = random.Random(f"{seed} {index}").randrange(left.size)  # noqa: S311 - no secret
            return Arm.BASELINE if draw < left.baseline else Arm.CANDIDATE
        baseline = max(0, baseline - block.baseline)
        candidate = max(0, candidate - block.candidate)
    return None


def block_numbers(plan: Sequence[StartBlock], arms: Sequence[Arm]) -> tuple[int, ...]:
    """For each start, in the order made, the number of its block (0 is the first).

    Starts beyond the plan are in a block of their own after it.
    """
    made = dict.fromkeys(Arm, 0)
    numbers = []
    for arm in arms:
        made[arm] += 1
        numbers.append(_block_of(plan, arm, made[arm]))
    return tuple(numbers)


def _block_of(plan: Sequence[StartBlock], arm: Arm, number: int) -> int:
    total = 0
    for index, block in enumerate(plan):
        total += block.of(arm)
        if number <= total:
            return index
    return len(plan)


# So long a group of neighbours may be, and so often in a row an arm may come in it.
_LONGEST = 5
_IN_A_ROW = 2


def neighbours(candidate: Sequence[bool]) -> tuple[int, ...]:
    """For each start in order of time, the number of its group of neighbours.

    Both arms are in a group, an arm at most twice in a row, at most five starts. What a machine
    does over hours then falls on both. The groups are those that allow the most labelings; a start
    without such neighbours is alone.
    """
    # best[end]: the logarithm of the labelings up to there, and where the last group begins.
    best = [(0.0, 0)]
    for end in range(1, len(candidate) + 1):
        options = [(best[end - 1][0], end - 1)]
        for begin in range(max(0, end - _LONGEST), end - 1):
            group = candidate[begin:end]
            if _is_mixed(group):
                ways = math.log(math.comb(len(group), sum(group)))
                options.append((best[begin][0] + ways, begin))
        best.append(max(options))
    numbers: list[int] = []
    end = len(candidate)
    while end:
        begin = best[end][1]
        numbers[:0] = [begin] * (end - begin)
        end = begin
    return tuple(numbers)


def _is_mixed(group: Sequence[bool]) -> bool:
    if len(set(group)) == 1:
        return False
    rows = zip(*(group[offset:] for offset in range(_IN_A_ROW + 1)), strict=False)
    return all(len(set(row)) > 1 for row in rows)

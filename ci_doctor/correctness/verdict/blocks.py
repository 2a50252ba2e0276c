# SPDX-License-Identifier: Apache-2.0
"""The blocks in which the arms are started, and the order within them. Pure.

In a block both arms have a fixed number of starts, in random order. Then the labels of the starts
are chance by design, whatever the machine does over time (permuted blocks: Rosenberger & Lachin,
Randomization in Clinical Trials, 2016, 3).
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.settings import Arm, Rules

# Starts of each arm at the ends of the later blocks.
_FURTHER_ENDS = 8
_FURTHER = 4
_MOST_EARLY_BASELINES = 2
# This block and the next.
_PULLED_FROM = 2


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


def blocks(rules: Rules, *, archived: bool) -> tuple[StartBlock, ...]:
    """The blocks of an experiment, at most `max_starts` starts in all.

    The first block holds what may be enough for `pass`: one start of each arm, or as many as the
    rules require. If archived baseline starts stand beside them, it holds the candidate's alone.
    """
    baseline = 0 if archived else rules.least_baselines
    ends = [StartBlock(baseline=baseline, candidate=rules.least_candidates)]
    for end in _ends(rules):
        last = ends[-1]
        wider = StartBlock(
            baseline=max(end.baseline, last.baseline), candidate=max(end.candidate, last.candidate)
        )
        if last.size < wider.size <= rules.max_starts:
            ends.append(wider)
    made = StartBlock(baseline=0, candidate=0)
    result = []
    for end in ends:
        baseline_more = end.baseline - made.baseline
        candidate_more = end.candidate - made.candidate
        result.append(StartBlock(baseline=baseline_more, candidate=candidate_more))
        made = end
    return tuple(result)


def _ends(rules: Rules) -> Iterator[StartBlock]:
    """The starts of both arms after each block, under each limit of the run.

    A run that goes on beyond a limit keeps the blocks that it made: the labels were drawn in them.
    """
    made = 0
    for limit in rules.limits:
        for end in _ends_of(limit, rules.least_baselines):
            if end.size > made:
                made = end.size
                yield end


def _ends_of(max_starts: int, least_baselines: int) -> Iterator[StartBlock]:
    """4 and 6 starts, then 8, 12, 16, … each; at most half each.

    Ten starts are the fewest that decide even if the machine's own modes coincide once with the
    labels. Unequal arms decide earlier than equal ones, where each labeling has a mirror image that
    is as extreme. More baseline starts than candidate starts, if the rules ask for them first.
    """
    half = max_starts // 2
    few, many = 4, 6
    if few + many < max_starts:
        early = least_baselines > _MOST_EARLY_BASELINES
        baseline, candidate = (many, few) if early else (few, many)
        yield StartBlock(baseline=baseline, candidate=candidate)
    for each in range(_FURTHER_ENDS, half, _FURTHER):
        yield StartBlock(baseline=each, candidate=each)
    yield StartBlock(baseline=half, candidate=half)


def next_in_order(
    plan: Sequence[StartBlock], made: Mapping[Arm, int], seed: int, needed: Collection[Arm]
) -> Arm | None:
    """The arm to start next; None if every block is full.

    A fair draw among the starts that are left in the block. If one arm alone is `needed` for a
    green verdict, its start is pulled forward, from the next block if need be. The draw depends on
    the seed and on the number of starts alone, so a run that is resumed goes on in the same order.
    """
    left = _left(plan, made)
    if not left:
        return None
    if len(needed) == 1:
        arm = next(iter(needed))
        if any(block.of(arm) for block in left[:_PULLED_FROM]):
            return arm
    block = left[0]
    index = sum(made.values())
    draw = random.Random(f"{seed} {index}").randrange(block.size)  # noqa: S311 - no secret
    return Arm.BASELINE if draw < block.baseline else Arm.CANDIDATE


def _left(plan: Sequence[StartBlock], made: Mapping[Arm, int]) -> list[StartBlock]:
    """What is left of the blocks that have starts to make, the first one first."""
    baseline = made.get(Arm.BASELINE, 0)
    candidate = made.get(Arm.CANDIDATE, 0)
    result = []
    for block in plan:
        left = StartBlock(
            baseline=max(0, block.baseline - baseline),
            candidate=max(0, block.candidate - candidate),
        )
        baseline = max(0, baseline - block.baseline)
        candidate = max(0, candidate - block.candidate)
        if left.size:
            result.append(left)
    return result


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

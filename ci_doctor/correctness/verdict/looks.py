# SPDX-License-Identifier: Apache-2.0
"""The blocks in which the arms are started, and the looks at which a regression may be declared. Pure.

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

from ci_doctor.correctness.settings import Arm, Rules, StartOrder
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.mix_test import (
    Labels,
    MixTest,
    Patterns,
    among,
    column_p,
    mix_test,
    patterns,
    smallest_p,
    traits,
)
from ci_doctor.correctness.verdict.starts import ArmStart, replaces_baseline
from ci_doctor.correctness.verdict.validity import OrderDoubt
from ci_doctor.model.facts.correctness import InterimLook, PermutationTest


def spent_by(alpha: float, made: int, most: int) -> float:
    """The probability of a false regression that is allowed up to a look after `made` of `most` starts.

    The Pocock-type spending function of Lan & DeMets (1983, doi:10.1093/biomet/70.3.659),
    alpha * ln(1 + (e - 1) t), with the share t of the starts as the share of the information. It
    spends enough early for nine starts to decide; the O'Brien-Fleming type spends next to nothing
    there.
    """
    share = min(1.0, made / most)
    return alpha * math.log1p((math.e - 1) * share)


def _limit_at(total: int, rules: Rules) -> int:
    """The limit of the run under which a look after so many starts is made.

    Each limit is a plan with an alpha of its own. A look stays in its plan when a run is resumed
    with a larger limit, so nobody raises its level by asking for more starts.
    """
    return next((most for most in rules.limits if total <= most), rules.max_starts)


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
    if not looks or _p_at(ends[:1]) <= spent_by(alpha, first.size, limits[0]):
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


class LookResult(Struct, frozen=True, kw_only=True):
    """The looks so far as a test, and whether one of them declares a regression.

    `doubt`: the test would reject if the starts were exchangeable, and nothing says that they are.
    """

    test: PermutationTest | None = None
    is_regression: bool = False
    doubt: OrderDoubt | None = None


def plan_of(starts: Sequence[ArmStart], rules: Rules) -> tuple[StartBlock, ...]:
    """The blocks of the experiment that these starts belong to."""
    return blocks(rules, archived=replaces_baseline(starts, rules))


def planned_looks(rules: Rules, *, archived: bool) -> tuple[int, ...]:
    """After how many starts of both arms each look comes.

    The first block is no look, unless it can decide: it is there for `pass`.
    """
    plan = blocks(rules, archived=archived)
    return tuple(
        sum(block.size for block in plan[: index + 1])
        for index in looks_after(rules, archived=archived)
    )


def look(
    starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules, *, complete: bool
) -> LookResult:
    """What the looks show that these starts have reached, in order, up to a regression.

    Archived starts are left out: nobody drew their labels. Starts that we did not order have one
    look, once they are `complete` (see `_one_look`).
    """
    if rules.order is not StartOrder.DRAWN:
        return _one_look(starts, requests, rules) if complete else LookResult()
    made = _drawn_starts(starts, requests, rules)
    most, spent = rules.limits[0], 0.0
    looks: list[InterimLook] = []
    last = LookResult()
    possible = looks_after(rules, archived=replaces_baseline(starts, rules))
    for index, total in _reached(plan_of(starts, rules), made.starts):
        if index not in possible:
            continue
        result = made.test_to(index)
        if result is None:
            continue
        if (at_most := _limit_at(total, rules)) != most:
            most, spent = at_most, 0.0
        limit = spent_by(rules.alpha, total, most) - spent
        spent += max((p for p in result.spendable if p <= limit), default=0.0)
        looks.append(InterimLook(starts=total, limit=limit, p=result.p))
        last = _judged(result, limit, rules, looks)
        if last.is_regression:
            break
    return last


def no_look_can_reject(starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules) -> bool:
    """Whether no look that is left can declare a regression, whatever the starts to come answer.

    The best case for a trait: each candidate start to come has it, and no baseline start, or the
    other way round. What earlier looks have spent is left out, so the limits are the largest. Starts to come are
    on agents of one kind, at best.
    """
    made = _drawn_starts(starts, requests, rules)
    plan = plan_of(starts, rules)
    given = traits(
        among(made.by_pattern, made.usable), [made.starts[place].failed for place in made.usable]
    )
    masks = {0, *(column.mask for column in given.columns)}
    # Later starts move the average, so any number may be the one that a start as a whole must exceed.
    for counts in given.counts:
        masks |= {
            sum(1 << bit for bit, count in enumerate(counts) if count > least) for least in counts
        }
    reached = {index for index, _ in _reached(plan, made.starts)}
    for index in looks_after(rules, archived=replaces_baseline(starts, rules)):
        if index in reached:
            continue
        total = sum(block.size for block in plan[: index + 1])
        limit = spent_by(rules.alpha, total, _limit_at(total, rules))
        if any(
            _best_p(made, plan[: index + 1], mask, arm) <= limit for mask in masks for arm in Arm
        ):
            return False
    return True


def _best_p(made: "_DrawnStarts", plan: Sequence[StartBlock], mask: int, arm: Arm) -> float:
    """The least p-value at the end of these blocks, if all starts of `arm` to come have the trait."""
    left = [{each: block.of(each) for each in Arm} for block in plan]
    # By cell: starts, those of the candidate, those with the trait.
    cells: dict[tuple[int, str], tuple[int, int, int]] = {}
    candidate = 0
    usable = {place: bit for bit, place in enumerate(made.usable)}
    for place, (start, cell) in enumerate(zip(made.starts, made.cells, strict=True)):
        block = cell[0]
        if block >= len(plan):
            continue
        left[block][start.arm] -= 1
        if place not in usable:
            continue
        is_candidate = start.arm is Arm.CANDIDATE
        has = mask >> usable[place] & 1
        size, candidates, having = cells.get(cell, (0, 0, 0))
        cells[cell] = size + 1, candidates + is_candidate, having + has
        candidate += is_candidate * has
    for block, rest in enumerate(left):
        # The kind of agent that the block has most of, so far.
        cell = max(
            (each for each in cells if each[0] == block), key=cells.__getitem__, default=(block, "")
        )
        size, candidates, having = cells.get(cell, (0, 0, 0))
        cells[cell] = (
            size + sum(rest.values()),
            candidates + rest[Arm.CANDIDATE],
            having + rest[arm],
        )
        candidate += rest[arm] * (arm is Arm.CANDIDATE)
    blocks_of = [(size, candidates) for size, candidates, _ in cells.values()]
    return column_p(blocks_of, [having for *_, having in cells.values()], candidate)


class _DrawnStarts(Struct, frozen=True, kw_only=True):
    """The starts whose labels were drawn, in order: the cell of each, and its answers as patterns.

    A cell is a block on agents of one kind: whatever the agents do, the labels within it are chance. `usable` are
    the places of those that count.
    """

    starts: Sequence[ArmStart]
    cells: Sequence[tuple[int, str]]
    by_pattern: Patterns
    usable: Sequence[int]

    def test_to(self, last: int) -> MixTest | None:
        """The test over the blocks up to the number `last`."""
        places = [place for place in self.usable if self.cells[place][0] <= last]
        starts = [self.starts[place] for place in places]
        numbers = {cell: number for number, cell in enumerate(sorted(set(self.cells)))}
        block = [numbers[self.cells[place]] for place in places]
        return _test(starts, block, among(self.by_pattern, places))


def _drawn_starts(
    starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules
) -> _DrawnStarts:
    made = [start for start in starts if not start.archived]
    # By identity: the archive decides which starts count, and equal starts are not the same.
    counting = {id(start) for start in counted(starts)}
    block = block_numbers(plan_of(starts, rules), [start.arm for start in made])
    return _DrawnStarts(
        starts=made,
        cells=[(number, start.agent) for number, start in zip(block, made, strict=True)],
        by_pattern=patterns(made, requests),
        usable=[place for place, start in enumerate(made) if id(start) in counting],
    )


def _reached(plan: Sequence[StartBlock], made: Sequence[ArmStart]) -> list[tuple[int, int]]:
    """The index of each block that is full, and the starts made by its end."""
    left = {arm: sum(start.arm is arm for start in made) for arm in Arm}
    total = 0
    reached = []
    for index, block in enumerate(plan):
        if any(left[arm] < block.of(arm) for arm in Arm):
            break
        for arm in Arm:
            left[arm] -= block.of(arm)
        total += block.size
        reached.append((index, total))
    return reached


def _test(starts: Sequence[ArmStart], block: Sequence[int], by_pattern: Patterns) -> MixTest | None:
    """The test over these starts and their blocks; None if an arm has too few, or all are equal."""
    candidate = tuple(start.arm is Arm.CANDIDATE for start in starts)
    if min(sum(candidate), len(candidate) - sum(candidate)) < FEWEST:
        return None
    given = traits(by_pattern, [start.failed for start in starts])
    if not given.columns:
        return None
    return mix_test(given, Labels(candidate=candidate, block=tuple(block)))


def _one_look(starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules) -> LookResult:
    """The look at starts that we did not order; they are in order of time if that is recorded.

    A recorded order has neighbours as blocks. Without one every labeling is taken as possible, and
    that alone declares nothing.
    """
    usable = counted(starts)
    by_pattern = patterns(usable, requests)
    anywhere = _single_look(usable, [0] * len(usable), by_pattern, rules)
    if rules.order is StartOrder.EXCHANGEABLE:
        return anywhere
    if rules.order is StartOrder.UNKNOWN:
        doubt = OrderDoubt.UNKNOWN if anywhere.is_regression else None
        return replace(anywhere, is_regression=False, doubt=doubt)
    block = neighbours([start.arm is Arm.CANDIDATE for start in usable])
    result = _single_look(usable, block, by_pattern, rules)
    doubt = OrderDoubt.TIME if anywhere.is_regression and not result.is_regression else None
    return replace(result, doubt=doubt)


def _single_look(
    usable: Sequence[ArmStart], block: Sequence[int], by_pattern: Patterns, rules: Rules
) -> LookResult:
    result = _test(usable, block, by_pattern)
    if result is None:
        return LookResult()
    looks = [InterimLook(starts=len(usable), limit=rules.alpha, p=result.p)]
    return _judged(result, rules.alpha, rules, looks)


def _judged(
    result: MixTest, limit: float, rules: Rules, looks: Sequence[InterimLook]
) -> LookResult:
    test = PermutationTest(
        disputed=result.requests,
        p=result.p,
        smallest_p=result.smallest_p,
        labelings=result.labelings,
        alpha=rules.alpha,
        level=limit,
        looks=tuple(looks),
    )
    return LookResult(test=test, is_regression=result.p <= limit)

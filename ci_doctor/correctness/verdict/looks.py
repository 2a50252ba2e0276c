# SPDX-License-Identifier: Apache-2.0
"""The looks at which a regression may be declared, and what each shows. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Rules, StartOrder
from ci_doctor.correctness.verdict.archive_licence import replaces_baseline
from ci_doctor.correctness.verdict.blocks import (
    FEWEST,
    StartBlock,
    block_numbers,
    blocks,
    looks_after,
    neighbours,
)
from ci_doctor.correctness.verdict.compare import ArmStart, counted
from ci_doctor.correctness.verdict.decision import InterimLook, OrderDoubt, PermutationTest
from ci_doctor.correctness.verdict.labelings import Labels, column_p
from ci_doctor.correctness.verdict.mix_test import MixTest, mix_test
from ci_doctor.correctness.verdict.patterns import Patterns, among, patterns
from ci_doctor.correctness.verdict.spending import spent_by
from ci_doctor.correctness.verdict.traits import traits


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
    spent = 0.0
    looks: list[InterimLook] = []
    last = LookResult()
    possible = looks_after(rules, archived=replaces_baseline(starts, rules))
    for index, total in _reached(plan_of(starts, rules), made.starts):
        if index not in possible:
            continue
        result = made.test_to(index)
        if result is None:
            continue
        limit = spent_by(rules.alpha, total, rules.max_starts) - spent
        spent += max((p for p in result.spendable if p <= limit), default=0.0)
        looks.append(InterimLook(starts=total, limit=limit, p=result.p))
        last = _judged(result, limit, rules, looks)
        if last.is_regression:
            break
    return last


def no_look_can_reject(starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules) -> bool:
    """Whether no look that is left can declare a regression, whatever the starts to come answer.

    The best case for a trait: each candidate start to come has it, and no baseline start, or the
    other way round. What earlier looks have spent is left out, so the limits are the largest.
    """
    made = _drawn_starts(starts, requests, rules)
    plan = plan_of(starts, rules)
    columns = traits(
        among(made.by_pattern, made.usable), [made.starts[place].failed for place in made.usable]
    ).columns
    masks = {0, *(column.mask for column in columns)}
    reached = {index for index, _ in _reached(plan, made.starts)}
    for index in looks_after(rules, archived=replaces_baseline(starts, rules)):
        if index in reached:
            continue
        total = sum(block.size for block in plan[: index + 1])
        limit = spent_by(rules.alpha, total, rules.max_starts)
        if any(
            _best_p(made, plan[: index + 1], mask, arm) <= limit for mask in masks for arm in Arm
        ):
            return False
    return True


def _best_p(made: "_DrawnStarts", plan: Sequence[StartBlock], mask: int, arm: Arm) -> float:
    """The least p-value at the end of these blocks, if all starts of `arm` to come have the trait."""
    left = [{each: block.of(each) for each in Arm} for block in plan]
    having = [0] * len(plan)
    candidate = 0
    usable = {place: bit for bit, place in enumerate(made.usable)}
    sizes = [(0, 0)] * len(plan)
    for place, (start, block) in enumerate(zip(made.starts, made.block, strict=True)):
        if block >= len(plan):
            continue
        left[block][start.arm] -= 1
        if place not in usable:
            continue
        is_candidate = start.arm is Arm.CANDIDATE
        size, candidates = sizes[block]
        sizes[block] = size + 1, candidates + is_candidate
        if mask >> usable[place] & 1:
            having[block] += 1
            candidate += is_candidate
    for block, rest in enumerate(left):
        size, candidates = sizes[block]
        sizes[block] = size + sum(rest.values()), candidates + rest[Arm.CANDIDATE]
        having[block] += rest[arm]
        candidate += rest[arm] * (arm is Arm.CANDIDATE)
    return column_p(sizes, having, candidate)


class _DrawnStarts(Struct, frozen=True, kw_only=True):
    """The starts whose labels were drawn, in order: the block of each, and its answers as patterns.

    `usable` are the places of those that count.
    """

    starts: Sequence[ArmStart]
    block: Sequence[int]
    by_pattern: Patterns
    usable: Sequence[int]

    def test_to(self, last: int) -> MixTest | None:
        """The test over the blocks up to the number `last`."""
        places = [place for place in self.usable if self.block[place] <= last]
        starts = [self.starts[place] for place in places]
        block = [self.block[place] for place in places]
        return _test(starts, block, among(self.by_pattern, places))


def _drawn_starts(
    starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules
) -> _DrawnStarts:
    made = [start for start in starts if not start.archived]
    # By identity: the archive decides which starts count, and equal starts are not the same.
    counting = {id(start) for start in counted(starts)}
    return _DrawnStarts(
        starts=made,
        block=block_numbers(plan_of(starts, rules), [start.arm for start in made]),
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

# SPDX-License-Identifier: Apache-2.0
"""Which arms to start next, where, and when enough is known. Pure."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.looks import FEWEST, blocks, next_in_order, plan_of
from ci_doctor.correctness.verdict.starts import (
    ArmStart,
    failures,
    have_answers,
    of_arm,
    only_device,
    working,
)
from ci_doctor.model.outcome import Verdict

# These end an experiment; the others may change with further starts.
_FINAL = {
    Verdict.PASS,
    Verdict.FLAKY,
    Verdict.VOID,
    Verdict.REGRESSION,
    Verdict.NONDETERMINISTIC,
}


def sequence(rules: Rules, *, archived: bool = False) -> tuple[Arm, ...]:
    """All starts that these rules may need, in their order.

    `archived`: enough builds were archived to pass without a baseline start of today.
    """
    if rules.policy is Policy.ANY:
        return pairs(rules.retries)
    plan = blocks(rules, archived=archived)
    made: Counter[Arm] = Counter()
    arms = []
    while arm := next_in_order(plan, made, rules.seed):
        arms.append(arm)
        made[arm] += 1
    return tuple(arms)


def pairs(retries: int) -> tuple[Arm, ...]:
    """A B A B …: the schedule of the policy `any`."""
    return (Arm.BASELINE, Arm.CANDIDATE) * retries


def next_arm(starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules) -> Arm | None:
    """The arm to start next; None if the verdict stands or every start was made.

    The order is the drawn one, whatever was answered: earlier answers decide when it ends, and
    never which arm is next.
    """
    usable = counted(starts)
    made = Counter(start.arm for start in starts if not start.archived)
    baseline = of_arm(usable, Arm.BASELINE)
    is_enough = made[Arm.BASELINE] >= FEWEST and only_device(baseline, usable) is None
    if not have_answers(baseline) and is_enough:
        # Without one working baseline start no candidate start can mean anything.
        return None
    if made[Arm.CANDIDATE] and have_answers(baseline):
        decision = decide(starts, requests, rules, complete=False)
        if decision.verdict in _FINAL or decision.is_final:
            return None
    is_any = rules.policy is Policy.ANY
    if not is_any and _is_enough(baseline, of_arm(usable, Arm.CANDIDATE), made, rules):
        return None
    return _drawn(starts, rules, made)


def next_arms(
    starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules, at_once: int = 1
) -> tuple[Arm, ...]:
    """The arms to start next, `at_once` of them at most; none if the verdict stands.

    They are the next ones of the drawn order. Starts that run at once belong to one block, so no
    look waits for a start behind it.
    """
    arm = next_arm(starts, requests, rules)
    made = Counter(start.arm for start in starts if not start.archived)
    index = made.total()
    last = together(starts, rules, index, at_once)[-1]
    arms: list[Arm] = []
    while arm is not None and index + len(arms) <= last:
        arms.append(arm)
        made[arm] += 1
        arm = _drawn(starts, rules, made)
    return tuple(arms)


def _drawn(starts: Sequence[ArmStart], rules: Rules, made: Mapping[Arm, int]) -> Arm | None:
    """The arm that the order of the rules has next; starts made out of turn count too."""
    if rules.policy is not Policy.ANY:
        return next_in_order(plan_of(starts, rules), made, rules.seed)
    left = Counter(made)
    for arm in pairs(rules.retries):
        # Below zero: this start of the sequence was not made yet.
        left[arm] -= 1
        if left[arm] < 0:
            return arm
    return None


def drawn_places(
    starts: Sequence[ArmStart], rules: Rules, places: int, at_once: int
) -> tuple[int, ...]:
    """Where the next starts run: the numbers of their places, of so many.

    Each is drawn for its position in the order, by the seed alone. So a place is no arm: under each
    label a start would have run at the same place. A run that is resumed draws the same.
    """
    index = sum(not start.archived for start in starts)
    wave = together(starts, rules, index, at_once)
    source = random.Random(f"{rules.seed} places {wave.start}")  # noqa: S311 - no secret
    drawn = source.sample(range(places), len(wave))
    return tuple(drawn[index - wave.start :])


def together(starts: Sequence[ArmStart], rules: Rules, index: int, at_once: int) -> range:
    """The positions in the order whose starts run at once with that at `index`: neighbours in its block."""
    sizes = [2] * rules.retries
    if rules.policy is not Policy.ANY:
        sizes = [block.size for block in plan_of(starts, rules)]
    begin = 0
    for size in sizes:
        if index < begin + size:
            first = index - (index - begin) % at_once
            return range(first, min(first + at_once, begin + size))
        begin += size
    return range(index, index + 1)


def _is_enough(
    baseline: Sequence[ArmStart],
    candidate: Sequence[ArmStart],
    made: Mapping[Arm, int],
    rules: Rules,
) -> bool:
    """Whether all starts were made, or those of the candidate can show nothing.

    Something outside the change ends each of them, or each fails and the baseline fails too.
    """
    nothing_works = not working(candidate) and (not candidate or failures(baseline) > 0)
    # It may be the device.
    is_device = only_device(candidate, (*baseline, *candidate)) is not None
    if nothing_works and not is_device and made[Arm.CANDIDATE] >= rules.retries:
        return True
    return sum(made.values()) >= rules.max_starts

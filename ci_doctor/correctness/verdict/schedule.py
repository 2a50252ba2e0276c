# SPDX-License-Identifier: Apache-2.0
"""Which arm to start next, and when enough is known. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count

from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.blocks import blocks, next_in_order
from ci_doctor.correctness.verdict.compare import (
    ArmStart,
    counted,
    failures,
    have_answers,
    of_arm,
    working,
)
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import FEWEST
from ci_doctor.correctness.verdict.differences import places_of
from ci_doctor.correctness.verdict.licence import needed_arms
from ci_doctor.correctness.verdict.looks import plan_of
from ci_doctor.correctness.verdict.patterns import patterns
from ci_doctor.correctness.verdict.validity import is_no_chance
from ci_doctor.model.verdict import Verdict

# These end an experiment; the others may change with further starts.
_FINAL = {
    Verdict.PASS,
    Verdict.FLAKY,
    Verdict.VOID,
    Verdict.REGRESSION,
    Verdict.NONDETERMINISTIC,
}


def baseline_starts(retries: int, alpha: float) -> int:
    """How many baseline starts allow one look to decide at `alpha` beside `retries` candidate starts.

    The change separates the arms completely in one labeling, and one more may do so by chance. With
    arms of equal size each labeling has a mirror image that is as extreme. All of these must fit
    into `alpha` of all labelings. Never fewer than the candidate's.
    """
    for baseline in count(max(FEWEST, retries)):
        extreme = 4 if baseline == retries else 2
        if extreme <= alpha * math.comb(baseline + retries, retries):
            return baseline
    raise AssertionError


def sequence(rules: Rules, *, archived: bool = False) -> tuple[Arm, ...]:
    """All starts that these rules may need, in their order.

    `archived`: enough builds were archived to pass without a baseline start of today.

    An experiment may pull starts forward within a block.
    """
    if rules.policy is Policy.ANY:
        return pairs(rules.retries)
    plan = blocks(rules, archived=archived)
    made: Counter[Arm] = Counter()
    arms = []
    while arm := next_in_order(plan, made, rules.seed, ()):
        arms.append(arm)
        made[arm] += 1
    return tuple(arms)


def pairs(retries: int) -> tuple[Arm, ...]:
    """A B A B …: the schedule of the policy `any`."""
    return (Arm.BASELINE, Arm.CANDIDATE) * retries


def next_arm(starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules) -> Arm | None:
    """The arm to start next; None if the verdict stands or every start was made."""
    usable = counted(starts)
    made = Counter(start.arm for start in starts if not start.archived)
    baseline = of_arm(usable, Arm.BASELINE)
    if made[Arm.BASELINE] and not have_answers(baseline):
        # Without one working baseline start no candidate start can mean anything.
        return Arm.BASELINE if made[Arm.BASELINE] < FEWEST else None
    if made[Arm.CANDIDATE] and have_answers(baseline):
        decision = decide(starts, requests, rules, complete=False)
        if decision.verdict in _FINAL:
            return None
    if rules.policy is Policy.ANY:
        return _first_unmade(pairs(rules.retries), made)
    candidate = of_arm(usable, Arm.CANDIDATE)
    if _is_enough(candidate, made, rules):
        return None
    if have_answers(baseline) and candidate and not working(candidate):
        return _next_for_a_failure(baseline, candidate, made, rules)
    return _next_in_order(starts, usable, requests, rules, made)


def _is_enough(candidate: Sequence[ArmStart], made: Counter[Arm], rules: Rules) -> bool:
    """Whether all starts were made, or something outside the change ends each candidate start."""
    ended_outside = made[Arm.CANDIDATE] >= rules.retries and not candidate
    return ended_outside or made.total() >= rules.max_starts


def _next_in_order(
    starts: Sequence[ArmStart],
    usable: Sequence[ArmStart],
    requests: Sequence[str],
    rules: Rules,
    made: Mapping[Arm, int],
) -> Arm | None:
    places = places_of(usable, rules)
    needed = frozenset(Arm)
    # Beside an archive the baseline would be pulled forward many times in a row, and a machine whose
    # modes last for a while would then look like a change.
    if places.candidate and places.baseline and not places.builds:
        needed = needed_arms(patterns(usable, requests), places)
    return next_in_order(plan_of(starts, rules), made, rules.seed, needed)


def _first_unmade(arms: Sequence[Arm], made: Mapping[Arm, int]) -> Arm | None:
    """The first start of the sequence that was not made; starts made out of turn count too."""
    left = Counter(made)
    for arm in arms:
        # Below zero: this start of the sequence was not made yet.
        left[arm] -= 1
        if left[arm] < 0:
            return arm
    return None


def _next_for_a_failure(
    baseline: Sequence[ArmStart],
    candidate: Sequence[ArmStart],
    made: Mapping[Arm, int],
    rules: Rules,
) -> Arm | None:
    """The arm to start next if the candidate failed, or answered nothing, every time.

    As many starts of each arm as decide soonest: one dead start takes 39 baseline starts to tell
    from a random failure at 0.025, three of them take five.
    """
    if failures(baseline):
        # Then it is no regression, however often it fails.
        return Arm.CANDIDATE if made[Arm.CANDIDATE] < rules.retries else None
    dead = len(candidate)
    if working(baseline) >= FEWEST and is_no_chance(working(baseline), dead, rules.alpha):
        return None
    wanted = _fewest_for_a_failure(dead, working(baseline), rules.alpha)
    if dead < wanted and dead <= working(baseline):
        return Arm.CANDIDATE
    return Arm.BASELINE


def _fewest_for_a_failure(dead: int, have: int, alpha: float) -> int:
    """How many failing candidate starts decide with the fewest starts in all."""
    best = dead
    fewest = _more_for_a_failure(dead, have, alpha)
    for more in count(1):
        if more >= fewest:
            return best
        total = more + _more_for_a_failure(dead + more, have, alpha)
        if total < fewest:
            best = dead + more
            fewest = total
    raise AssertionError


def _more_for_a_failure(candidate: int, have: int, alpha: float) -> int:
    """How many more baseline starts must work to blame that many failing candidate starts."""
    for baseline in count(max(FEWEST, have)):
        if is_no_chance(baseline, candidate, alpha):
            return baseline - have
    raise AssertionError

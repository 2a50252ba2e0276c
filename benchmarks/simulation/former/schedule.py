# SPDX-License-Identifier: Apache-2.0
"""Which arm to start next, and when enough is known. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count

from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Policy
from ci_doctor.model.verdict import Verdict
from simulation.former.compare import (
    ArmStart,
    counted,
    have_answers,
    of_arm,
    working,
)
from simulation.former.decide import decide
from simulation.former.decision import FEWEST
from simulation.former.rules import FormerRules as Rules
from simulation.former.validity import is_no_chance

# Fresh baseline starts beside archived ones before a regression may be declared: the machine may
# have changed since.
FEWEST_FRESH = 2
_EARLY = {Verdict.PASS, Verdict.FLAKY, Verdict.VOID}


def baseline_starts(retries: int, alpha: float) -> int:
    """How many baseline starts allow a decision at `alpha` beside `retries` candidate starts.

    A regression that separates the arms is the most extreme labeling. The environment may by chance
    vary along another labeling, and that one is as extreme. With arms of equal size each labeling
    has a mirror image that is as extreme. All of these must fit into `alpha` of all labelings: 5
    baseline starts for 3 candidate starts, 8 for 2, 39 for 1. Never fewer than the candidate's.
    """
    for baseline in count(max(FEWEST, retries)):
        extreme = 4 if baseline == retries else 2
        if extreme <= alpha * math.comb(baseline + retries, retries):
            return baseline
    raise AssertionError


def order(retries: int, alpha: float, archived: int = 0, *, eager: bool = False) -> tuple[Arm, ...]:
    """All starts of the schedule, interleaved: a machine that drifts does so under both arms.

    The candidate comes second; with `archived` baseline starts it comes first, because that start
    may be all it takes. An `eager` schedule has two candidate starts after each baseline start, for
    those who want several before a pass: A B B A B B A A A.
    """
    candidate_first = archived > 0
    baseline = baseline_starts(retries, alpha)
    if archived:
        baseline = max(FEWEST_FRESH, baseline - archived)
    total = retries + baseline
    if eager:
        places = _eager_places(retries, total, candidate_first=candidate_first)
    elif retries > FEWEST and 0 <= baseline - retries <= 1:
        places = _thue_morse_places(retries, candidate_first=candidate_first)
    else:
        places = _spread_places(retries, total, candidate_first=candidate_first)
    arms = [Arm.BASELINE] * total
    for place in places:
        arms[place] = Arm.CANDIDATE
    return tuple(arms)


def _eager_places(retries: int, total: int, *, candidate_first: bool) -> set[int]:
    """A B B A B B A A A."""
    places = [index for index in range(total) if (index + candidate_first) % 3]
    return set(places[:retries])


def _thue_morse_places(retries: int, *, candidate_first: bool) -> set[int]:
    """A B B A B A A B.

    For arms of (nearly) equal size an even spread is strict alternation. A machine that alternates
    too (every second start is warm) would then look like a regression. The Thue-Morse sequence has
    no period.
    """
    places = set()
    for index in range(2 * retries):
        is_odd = index.bit_count() % 2 == 1
        if is_odd is not candidate_first:
            places.add(index)
    return places


def _spread_places(retries: int, total: int, *, candidate_first: bool) -> set[int]:
    """A B A A B A B A for three candidate starts: spread evenly."""
    first = 0 if candidate_first else 1
    places = {first}
    # The first place is given; each other one is the middle of one of `retries` equal parts.
    for index in range(1, retries):
        middle = (index + 0.5) * total / retries
        places.add(math.floor(middle))
    return places


def pairs(retries: int) -> tuple[Arm, ...]:
    """A B A B …: the schedule of the policy `any`."""
    return (Arm.BASELINE, Arm.CANDIDATE) * retries


def next_arm(starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules) -> Arm | None:
    """The arm to start next; None if the verdict stands or every start was made.

    `pass`, `flaky` and `void` end the schedule early. A regression is decided in one look at the
    end: a second look would be a second chance to take chance for a regression.
    """
    usable = counted(starts)
    made = Counter(start.arm for start in starts if not start.archived)
    if not have_answers(of_arm(usable, Arm.BASELINE)):
        # Without one working baseline start no candidate start can mean anything.
        return Arm.BASELINE if made[Arm.BASELINE] < FEWEST else None
    if made[Arm.CANDIDATE]:
        decision = decide(starts, requests, rules, complete=False)
        if decision.verdict in _EARLY:
            return None
    # These were made for a candidate that never worked. It has worked since, and failed before:
    # neither is a verdict that more baseline starts could change.
    if made[Arm.CANDIDATE] > rules.retries and not _never_works(usable):
        return None
    if _never_works(usable):
        rules = _for_a_failure(rules, working(of_arm(usable, Arm.BASELINE)))
    archived = sum(start.archived for start in usable)
    arms = sequence(rules, archived)
    no_more_baseline = _enough_for_a_failure(usable, rules)
    return _first_unmade(arms, made, no_more_baseline=no_more_baseline)


def _first_unmade(
    arms: Sequence[Arm], made: Mapping[Arm, int], *, no_more_baseline: bool
) -> Arm | None:
    """The first start of the sequence that was not made; starts made out of turn count too."""
    left = Counter(made)
    for arm in arms:
        # Below zero: this start of the sequence was not made yet.
        left[arm] -= 1
        skipped = no_more_baseline and arm is Arm.BASELINE
        if left[arm] < 0 and not skipped:
            return arm
    return None


def sequence(rules: Rules, archived: int) -> tuple[Arm, ...]:
    """All starts that these rules may need beside `archived` ones."""
    if rules.policy is Policy.ANY:
        return pairs(rules.retries)
    return order(rules.retries, rules.alpha, archived, eager=rules.least_candidates > 1)


def _never_works(usable: Sequence[ArmStart]) -> bool:
    """Whether the candidate was started, and failed or answered nothing every time."""
    candidate = of_arm(usable, Arm.CANDIDATE)
    return bool(candidate) and not working(candidate)


def _for_a_failure(rules: Rules, have: int) -> Rules:
    """The rules for a candidate that never works: as many candidate starts as decide soonest.

    One dead start takes 19 baseline starts to tell from a random failure at 0.05, three of them
    take three. `have` baseline starts have worked already.
    """
    if rules.policy is Policy.ANY:
        return rules
    best = rules.retries
    fewest = best + _more_for_a_failure(best, have, rules.alpha)
    for candidate in range(best + 1, fewest):
        total = candidate + _more_for_a_failure(candidate, have, rules.alpha)
        if total < fewest:
            best, fewest = candidate, total
    return replace(rules, retries=best)


def _more_for_a_failure(candidate: int, have: int, alpha: float) -> int:
    """How many more baseline starts must work to blame that many failing candidate starts."""
    for baseline in count(max(FEWEST, have)):
        if is_no_chance(baseline, candidate, alpha):
            return baseline - have
    raise AssertionError


def _enough_for_a_failure(usable: Sequence[ArmStart], rules: Rules) -> bool:
    """Whether the baseline works often enough to blame a candidate that never does."""
    if not _never_works(usable):
        return False
    baseline = working(of_arm(usable, Arm.BASELINE))
    return baseline >= FEWEST and is_no_chance(baseline, rules.retries, rules.alpha)

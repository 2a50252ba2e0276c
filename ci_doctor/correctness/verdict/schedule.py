# SPDX-License-Identifier: Apache-2.0
"""Which arm to start next, and when enough is known. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import count

from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.compare import ArmStart, counted
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import FEWEST, of_arm
from ci_doctor.correctness.verdict.validity import is_no_chance
from ci_doctor.model.verdict import Verdict

# Fresh baseline starts that stand beside archived ones before a regression may be said: the machine may have changed.
FEWEST_FRESH = 2
_EARLY = {Verdict.PASS, Verdict.FLAKY, Verdict.VOID}


def baseline_starts(retries: int, alpha: float) -> int:
    """How many baseline starts make a decision at `alpha` possible beside `retries` candidate starts.

    A regression that separates the arms is the most extreme labeling. Where the environment's own modes happen to line
    up with some other labeling, that one is as extreme; with arms of equal size each has a mirror image that is. So at
    least that many labelings must fit into `alpha` of all: 5 for 3, 8 for 2, 39 for 1. Never fewer than the candidate's.
    """
    for baseline in count(max(FEWEST, retries)):
        extreme = 4 if baseline == retries else 2
        if extreme <= alpha * math.comb(baseline + retries, retries):
            return baseline
    raise AssertionError


def order(retries: int, alpha: float, archived: int = 0, *, eager: bool = False) -> tuple[Arm, ...]:
    """All starts of the schedule, interleaved so that a machine that drifts does so under both arms.

    A B A A B A B A for three candidate starts: they are spread evenly. Where that would be strict alternation, a machine
    that alternates too (every second start is warm) would look like a regression, and the Thue-Morse sequence is taken
    instead: A B B A B A A B. An `eager` schedule has candidate starts earlier, two after each of the baseline's, for those
    who want several before a pass: A B B A B B A A A. The candidate comes second, or first where `archived` baseline
    starts are there already, since that may be all it takes.
    """
    baseline = baseline_starts(retries, alpha)
    if archived:
        baseline = max(FEWEST_FRESH, baseline - archived)
    total = retries + baseline
    if eager:
        places = {index for index in range(total) if (index + bool(archived)) % 3}
        places = set(sorted(places)[:retries])
    elif retries > FEWEST and 0 <= baseline - retries <= 1:
        turns = [index.bit_count() % 2 == 1 for index in range(2 * retries)]
        places = {index for index, candidate in enumerate(turns) if candidate is not bool(archived)}
    else:
        spread = [math.floor((index + 0.5) * total / retries) for index in range(retries)]
        places = {0 if archived else 1, *spread[1:]}
    return tuple(Arm.CANDIDATE if place in places else Arm.BASELINE for place in range(total))


def pairs(retries: int) -> tuple[Arm, ...]:
    """A B A B …: the schedule of the policy `any`."""
    return (Arm.BASELINE, Arm.CANDIDATE) * retries


def next_arm(starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules) -> Arm | None:
    """The arm to start next, or None where the verdict stands or every start was made.

    `pass` and `flaky` end it early, and so does evidence that is void; a regression is decided in one look at the end.
    """
    usable = counted(starts)
    made = Counter(start.arm for start in starts if not start.archived)
    if not any(start.answered for start in of_arm(usable, Arm.BASELINE)):
        # Without one working baseline start no candidate start can mean anything.
        return Arm.BASELINE if made[Arm.BASELINE] < FEWEST else None
    if made[Arm.CANDIDATE] and decide(starts, requests, rules, complete=False).verdict in _EARLY:
        return None
    enough = _enough_for_a_failure(usable, rules)
    for arm in sequence(rules, sum(start.archived for start in usable)):
        made[arm] -= 1
        if made[arm] < 0 and not (enough and arm is Arm.BASELINE):
            return arm
    return None


def sequence(rules: Rules, archived: int) -> tuple[Arm, ...]:
    """All starts that these rules may ask for beside `archived` ones."""
    return (
        pairs(rules.retries)
        if rules.policy is Policy.ANY
        else order(rules.retries, rules.alpha, archived, eager=rules.least_candidates > 1)
    )


def _enough_for_a_failure(usable: Sequence[ArmStart], rules: Rules) -> bool:
    """Whether the baseline works often enough to blame a candidate that never does."""
    candidate = of_arm(usable, Arm.CANDIDATE)
    never = bool(candidate) and not any(start.answered and not start.failed for start in candidate)
    working = [
        start for start in of_arm(usable, Arm.BASELINE) if start.answered and not start.failed
    ]
    return (
        never and len(working) >= FEWEST and is_no_chance(len(working), rules.retries, rules.alpha)
    )

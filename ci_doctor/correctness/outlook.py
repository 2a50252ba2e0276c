# SPDX-License-Identifier: Apache-2.0
"""How many starts fit into the time, and what that leaves undecided. Pure."""

import math
import statistics
from collections import Counter

from msgspec import Struct

from ci_doctor.correctness.estimate import Estimate, EstimateSource
from ci_doctor.correctness.settings import Arm
from ci_doctor.render import formatting


class Schedule(Struct, frozen=True, kw_only=True):
    """What is planned and done.

    `order` are all starts (`schedule.order`), `made` those that count already. `archived` baseline
    starts stand beside them. `least_candidates` must have answered before a pass.
    """

    order: tuple[Arm, ...]
    made: tuple[Arm, ...] = ()
    archived: int = 0
    least_candidates: int = 1
    alpha: float = 0.05

    @property
    def remaining(self) -> tuple[Arm, ...]:
        """The starts of `order` that are still to be made, whichever were made out of turn."""
        made = Counter(self.made)
        left = []
        for arm in self.order:
            made[arm] -= 1
            if made[arm] < 0:
                left.append(arm)
        return tuple(left)

    @property
    def fewest(self) -> int:
        """How many more starts a verdict takes at best: at least one, if any remain."""
        counts = Counter(self.made)
        counts[Arm.BASELINE] += self.archived
        remaining = self.remaining
        # The best case: all answers are equal, so the first start of each arm decides.
        for count, arm in enumerate(remaining, start=1):
            counts[arm] += 1
            if counts[Arm.BASELINE] and counts[Arm.CANDIDATE] >= self.least_candidates:
                return count
        return len(remaining)

    def smallest_p(self, more: int) -> float:
        """The smallest p-value after `more` further starts; 1 if an arm has none.

        One labeling of all; two if the arms have equal size, because then each labeling has a
        mirror image that is as extreme.
        """
        counts = Counter((*self.made, *self.remaining[:more]))
        baseline = counts[Arm.BASELINE] + self.archived
        candidate = counts[Arm.CANDIDATE]
        labelings = math.comb(baseline + candidate, candidate)
        extreme = 2 if baseline == candidate else 1
        return min(1.0, extreme / labelings)


def outlook(estimate: Estimate, schedule: Schedule, left_s: float) -> str:
    """How many starts fit into `left_s` seconds, and what stays undecided. No full stop."""
    remaining = schedule.remaining
    fitting = estimate.fitting(remaining, left_s)
    left = f"{formatting.duration(max(0.0, left_s))} left"
    if fitting == len(remaining):
        return f"{left}: {_all_fit(estimate, schedule, left_s)}"
    # An assumption must not tell a person that nothing fits.
    if estimate.source is EstimateSource.ASSUMED and not fitting:
        return f"{left}: whether a start fits is not known before the first ({estimate.basis})"
    fit = "fits" if fitting == 1 else "fit"
    return (
        f"{left}: about {fitting} of {len(remaining)}{_more(schedule)} starts of {estimate} {fit} "
        f"({estimate.basis}): {_undecided(schedule, fitting)}"
    )


def _all_fit(estimate: Estimate, schedule: Schedule, left_s: float) -> str:
    pace = statistics.fmean(estimate.start_s.values())
    room = "any number of starts"
    if pace > 0:
        room = formatting.amount(math.floor(left_s / pace), "start")
    most = len(schedule.remaining)
    fewest = schedule.fewest
    needs = str(most) if fewest == most else f"{fewest} to {most}"
    return (
        f"about {room} of {estimate} fit ({estimate.basis}); "
        f"the schedule needs {needs}{_more(schedule)}"
    )


def _more(schedule: Schedule) -> str:
    return " more" if schedule.made else ""


def _undecided(schedule: Schedule, fitting: int) -> str:
    fewest = schedule.fewest
    if fitting < fewest:
        return (
            "nothing can be decided, not even that the answers are equal: "
            f"that takes {fewest}{_more(schedule)}"
        )
    smallest = schedule.smallest_p(fitting)
    reason = ": that takes every start, because it is decided in one look at the end"
    if smallest > schedule.alpha:
        reason = f" (its smallest p would be {_p(smallest)}, above {schedule.alpha:g})"
    return (
        "equal answers and a flaky baseline can be reported, "
        f"a regression cannot be decided{reason}"
    )


def _p(value: float) -> str:
    """Two significant figures, rounded up: never smaller than the p-value is."""
    digits = max(2, 1 - math.floor(math.log10(value)))
    # Minus 1e-9, because 0.10 * 100 is 10.000000000000002.
    return f"{math.ceil(value * 10**digits - 1e-9) / 10**digits:.{digits}f}"

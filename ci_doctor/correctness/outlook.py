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

    `order` are all starts that the run may need, `made` those that count already. `looks` are the
    numbers of starts after which a regression may be declared. `archived`: enough builds
    were archived to pass without a baseline start of today. `least_baselines` and `least_candidates` must have answered before a pass.
    """

    order: tuple[Arm, ...]
    made: tuple[Arm, ...] = ()
    looks: tuple[int, ...] = ()
    archived: bool = False
    least_baselines: int = 1
    least_candidates: int = 1

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
        remaining = self.remaining
        # The best case: all answers are equal, so the first starts of each arm decide.
        for count, arm in enumerate(remaining, start=1):
            counts[arm] += 1
            is_known = self.archived or counts[Arm.BASELINE] >= self.least_baselines
            if is_known and counts[Arm.CANDIDATE] >= self.least_candidates:
                return count
        return len(remaining)

    @property
    def next_look(self) -> int | None:
        """The index in `looks` of the next look; None if all were made."""
        for index, starts in enumerate(self.looks):
            if starts > len(self.made):
                return index
        return None


def outlook(estimate: Estimate, schedule: Schedule, left_s: float, of_s: float) -> str:
    """How many starts fit into `left_s` of `of_s` seconds, and what stays undecided. No full stop."""
    remaining = schedule.remaining
    fitting = estimate.fitting(remaining, left_s)
    left = _left(left_s, of_s)
    # An assumption must not tell a person that nothing fits.
    if estimate.source is EstimateSource.ASSUMED and not fitting:
        return f"{left}: whether a start fits is not known before the first ({estimate.basis})"
    if fitting == len(remaining):
        return f"{left}: {_all_fit(estimate, schedule, left_s)}"
    fit = "fits" if fitting == 1 else "fit"
    return (
        f"{left}: about {fitting} of {len(remaining)}{_more(schedule)} starts of {estimate} {fit} "
        f"({estimate.basis}): {_undecided(schedule, fitting)}"
    )


def _left(left_s: float, of_s: float) -> str:
    left = formatting.duration(max(0.0, left_s))
    return f"{left} left of {formatting.duration(of_s)}"


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
        f"the run takes {needs}{_more(schedule)}{_looks(schedule)}"
    )


def _more(schedule: Schedule) -> str:
    return " more" if schedule.made else ""


def _looks(schedule: Schedule) -> str:
    """When a regression may be declared: at first all looks, then the next one."""
    index = schedule.next_look
    if index is None:
        return ""
    if not schedule.made:
        return f"; looks at {_listed(schedule.looks)} starts"
    return f"; {_next_look(schedule, index)}"


def _listed(numbers: tuple[int, ...]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last


def _next_look(schedule: Schedule, index: int) -> str:
    starts = schedule.looks[index]
    more = starts - len(schedule.made)
    return f"look {index + 1} of {len(schedule.looks)} at {starts} starts, after {more} more"


def _undecided(schedule: Schedule, fitting: int) -> str:
    fewest = schedule.fewest
    if fitting < fewest:
        return (
            "nothing can be decided, not even that the answers are equal: "
            f"that takes {fewest}{_more(schedule)}"
        )
    index = schedule.next_look
    if index is None:
        return "equal answers and a flaky baseline can be reported, a regression cannot be decided"
    starts = schedule.looks[index]
    if fitting < starts - len(schedule.made):
        return (
            "equal answers and a flaky baseline can be reported, a regression cannot be decided "
            f"before {starts} starts"
        )
    return f"what those leave undecided stays undecided; {_next_look(schedule, index)}"

# SPDX-License-Identifier: Apache-2.0
"""How a run would end if the change had a known fault, computed before its first start. Pure.

The fault: on one request a share of the candidate's starts gives one wrong answer; nothing else
differs. All courses of a run are followed, with their binomial probabilities, by the rules of
`verdict`: a pass, the looks, and the stop for noise. Only counts matter, so no start is made up.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.count_chances import mix_p, own_p
from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.blocks import StartBlock, blocks, next_in_order
from ci_doctor.correctness.verdict.differences import USUAL_P_QUIET
from ci_doctor.correctness.verdict.licence import FEWEST_FOR_NOISE
from ci_doctor.correctness.verdict.spending import spent_by

# Courses are followed up to the first look after so many starts: later ones change little.
_HORIZON = 20
_BOTH = frozenset(Arm)


class FaultPower(Struct, frozen=True, kw_only=True):
    """How runs end within `starts` starts: the shares that are `red` and `green`, from 0 to 1.

    `mean_starts` is the mean number of starts until then.
    """

    starts: int
    red: float
    green: float
    mean_starts: float


class _Course(Struct, frozen=True, kw_only=True):
    """What was made so far: starts of each arm, and the faulty ones of the candidate by block.

    `looks` were made, and have used up the part `spent` of alpha.
    """

    baseline: int
    candidate: int
    faulty: tuple[int, ...]
    looks: int = 0
    spent: float = 0.0

    @property
    def total(self) -> int:
        """Starts of both arms."""
        return self.baseline + self.candidate

    def with_start(self, arm: Arm) -> "_Course":
        """The course with one more start, which is not faulty."""
        if arm is Arm.BASELINE:
            return replace(self, baseline=self.baseline + 1)
        return replace(self, candidate=self.candidate + 1)


def fault_power(rules: Rules, share: float, *, archived: bool = False) -> FaultPower:
    """How a run ends if the fault shows in that share of the candidate's starts (0 to 1).

    `archived`: baseline starts of earlier builds stand beside the run, and all agree.
    """
    walk = _Walk(rules, archived=archived)
    courses = {_Course(baseline=0, candidate=0, faulty=(0,) * len(walk.plan)): 1.0}
    red = green = mean = 0.0
    for made in range(1, walk.horizon + 1):
        ended: dict[_Course, float] = {}
        for course, weight in _after_one_start(walk, courses, share).items():
            judged, verdict = walk.judged(course)
            if verdict is None and made < walk.horizon:
                ended[judged] = ended.get(judged, 0.0) + weight
                continue
            mean += weight * made
            red += weight * (verdict == "red")
            green += weight * (verdict == "green")
        courses = ended
    return FaultPower(starts=walk.horizon, red=red, green=green, mean_starts=mean)


def _after_one_start(
    walk: "_Walk", courses: dict[_Course, float], share: float
) -> dict[_Course, float]:
    """The courses with one more start: a candidate start is faulty, or it is not."""
    after: dict[_Course, float] = {}
    for course, weight in courses.items():
        arm = walk.next_arm(course)
        clean = course.with_start(arm)
        branches = [(clean, weight)]
        if arm is Arm.CANDIDATE:
            branches = [(clean, weight * (1 - share)), (walk.with_fault(clean), weight * share)]
        for branch, probability in branches:
            if probability:
                after[branch] = after.get(branch, 0.0) + probability
    return after


class _Walk:
    """The rules of a run for one faulty request."""

    def __init__(self, rules: Rules, *, archived: bool) -> None:
        self.rules = rules
        self.archived = archived
        self.plan = blocks(rules, archived=archived)
        self.ends = _ends(self.plan)
        # The first block is no look, unless it is the only one.
        self.first_look = min(1, len(self.plan) - 1)
        self.horizon = next((end for end in self.ends if end >= _HORIZON), self.ends[-1])

    def next_arm(self, course: _Course) -> Arm:
        """The arm to start next."""
        faulty = sum(course.faulty)
        needed = _BOTH
        if 0 < faulty < course.candidate:
            # The candidate keeps the baseline's answer. Only a baseline start could excuse the other.
            needed = frozenset({Arm.BASELINE})
        made = Counter({Arm.BASELINE: course.baseline, Arm.CANDIDATE: course.candidate})
        arm = next_in_order(self.plan, made, self.rules.seed, needed)
        assert arm is not None  # noqa: S101 - courses end at the horizon
        return arm

    def with_fault(self, course: _Course) -> _Course:
        """The course if its newest candidate start was faulty."""
        faulty = list(course.faulty)
        faulty[self._newest_block(course)] += 1
        return replace(course, faulty=tuple(faulty))

    def _newest_block(self, course: _Course) -> int:
        total = 0
        for index, block in enumerate(self.plan):
            total += block.candidate
            if course.candidate <= total:
                return index
        raise AssertionError

    def judged(self, course: _Course) -> tuple[_Course, str | None]:
        """The course with what its look spent, and `red`, `green`, or None if it goes on."""
        if not sum(course.faulty):
            known = self.archived or course.baseline >= self.rules.least_baselines
            is_green = known and course.candidate >= self.rules.least_candidates
            return course, "green" if is_green else None
        course, is_red = self._looked(course)
        if is_red:
            return course, "red"
        return course, "green" if self._is_noise(course) else None

    def _looked(self, course: _Course) -> tuple[_Course, bool]:
        """The course after the look that its newest start has reached, if any; and if it is red."""
        index = course.looks + self.first_look
        if index >= len(self.plan) or not self._is_filled(course, index):
            return course, False
        made = self._blocks_of(course)[: index + 1]
        end = self.ends[index]
        limit = spent_by(self.rules.alpha, end, self.rules.max_starts) - course.spent
        p, spendable = mix_p(made, course.faulty[: index + 1])
        # In a look at nothing but one arm's starts every p is 1.
        spent = max((each for each in spendable if each <= limit), default=0.0)
        course = replace(course, looks=course.looks + 1, spent=course.spent + spent)
        return course, p <= limit

    def _is_filled(self, course: _Course, index: int) -> bool:
        """Whether all starts of the blocks up to this one were made."""
        baseline = sum(block.baseline for block in self.plan[: index + 1])
        candidate = sum(block.candidate for block in self.plan[: index + 1])
        return course.baseline >= baseline and course.candidate >= candidate

    def _is_noise(self, course: _Course) -> bool:
        """Whether the run ends green because chance explains the fault's answers.

        With three starts of an arm it never does: the baseline does not vary.
        """
        fewest = min(course.baseline, course.candidate)
        is_time = course.total in self.ends[self.first_look :]
        if not is_time or fewest <= max(self.rules.retries, FEWEST_FOR_NOISE):
            return False
        if sum(course.faulty) == course.candidate:
            return False
        made = [StartBlock(baseline=course.baseline, candidate=course.candidate)]
        faulty = [sum(course.faulty)]
        p, _ = mix_p(made, faulty)
        return min(p, own_p(made, faulty)) > USUAL_P_QUIET

    def _blocks_of(self, course: _Course) -> list[StartBlock]:
        """How many starts of each arm were made in each block."""
        made = []
        baseline = course.baseline
        candidate = course.candidate
        for block in self.plan:
            part = StartBlock(
                baseline=min(baseline, block.baseline), candidate=min(candidate, block.candidate)
            )
            baseline -= part.baseline
            candidate -= part.candidate
            made.append(part)
        return made


def _ends(plan: Sequence[StartBlock]) -> list[int]:
    ends = []
    total = 0
    for block in plan:
        total += block.size
        ends.append(total)
    return ends

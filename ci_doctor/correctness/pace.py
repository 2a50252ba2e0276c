# SPDX-License-Identifier: Apache-2.0
"""Remaining starts and time of an experiment. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.budget import LONGEST_RESERVE_S
from ci_doctor.correctness.estimate import Estimate, corrected
from ci_doctor.correctness.next_run import SLACK_SHARE, extended_run, new_run, resumed_run
from ci_doctor.correctness.outlook import Schedule, outlook
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.looks import planned_looks
from ci_doctor.correctness.verdict.schedule import sequence

# Candidate starts of a proposed new run under the policy `any`, beyond those that did not decide.
_MORE = 2
# A run that made every start goes on to this many times as many.
_FACTOR = 2


class Pace(Struct, frozen=True, kw_only=True):
    """The estimate before the first start (`prior`), what to make, and for how long.

    `archived`: enough builds were archived to pass without a baseline start of today. `began` and
    `deadline` are monotonic times. `share`: what starts that run at once take, of the sum of their
    own times.
    """

    prior: Estimate
    rules: Rules
    archived: bool
    began: float
    deadline: float
    share: float = 1.0

    @property
    def order(self) -> tuple[Arm, ...]:
        """All starts, should none of them decide before the last."""
        return sequence(self.rules, archived=self.archived)

    def outlook(self, results: Sequence[StartResult], now: float) -> str:
        """How many starts still fit, and what that leaves undecided."""
        estimate = self._estimate(results)
        schedule = self._schedule(results)
        return outlook(estimate, schedule, self.deadline - now, self.deadline - self.began)

    def measured_deadline(self, results: Sequence[StartResult]) -> float:
        """The deadline by which all starts end that the run may need, by what these took.

        Never earlier than the present one; the present one without a start that answered everything.
        """
        counted = [each for each in results if each.counts and each.failure is None]
        if not counted:
            return self.deadline
        seconds = self._estimate(counted).total(self.order) * (1 + SLACK_SHARE) + LONGEST_RESERVE_S
        return max(self.deadline, self.began + seconds)

    def next_run(
        self, results: Sequence[StartResult], argv: Sequence[str], directory: str, reserve_s: float
    ) -> str:
        """The run that would decide an undecided experiment: starts, minutes, and the command."""
        estimate = self._estimate(results)
        schedule = self._schedule(results)
        if schedule.remaining:
            return resumed_run(estimate, schedule.remaining, argv, directory, reserve_s)
        if self.rules.policy is Policy.ANY:
            retries = self.rules.retries + _MORE
            anew = sequence(replace(self.rules, retries=retries), archived=self.archived)
            return new_run(estimate, anew, argv, retries, reserve_s)
        most = _FACTOR * self.rules.max_starts
        limits = self.rules.limits
        longer = replace(self.rules, max_starts=most, earlier_max_starts=limits)
        further = replace(schedule, order=sequence(longer, archived=self.archived)).remaining
        return extended_run(estimate, further, argv, directory, most, reserve_s)

    def _estimate(self, results: Sequence[StartResult]) -> Estimate:
        durations = []
        for result in results:
            # A start that died took less time than one that answers everything.
            if result.failure is None and not result.cut_short:
                durations.append((result.start.arm, self.share * result.duration_s))  # noqa: PERF401
        return corrected(self.prior, durations)

    def _schedule(self, results: Sequence[StartResult]) -> Schedule:
        # The policy `any` has no test, and so no look.
        looks: tuple[int, ...] = ()
        if self.rules.policy is Policy.CONTROL:
            looks = planned_looks(self.rules, archived=self.archived)
        return Schedule(
            order=self.order,
            made=tuple(result.start.arm for result in results if result.counts),
            looks=looks,
            archived=self.archived,
            least_baselines=self.rules.least_baselines,
            least_candidates=self.rules.least_candidates,
        )

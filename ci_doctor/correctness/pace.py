# SPDX-License-Identifier: Apache-2.0
"""Remaining starts and time of an experiment. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.estimate import Estimate, corrected
from ci_doctor.correctness.next_run import new_run, resumed_run
from ci_doctor.correctness.outlook import Schedule, outlook
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.schedule import sequence

# Candidate starts of a proposed new run, beyond those that did not decide.
_MORE = 2


class Pace(Struct, frozen=True, kw_only=True):
    """The estimate before the first start (`prior`), what to make, and the deadline (monotonic)."""

    prior: Estimate
    rules: Rules
    archived: int
    deadline: float

    @property
    def order(self) -> tuple[Arm, ...]:
        """All starts, should none of them decide before the last."""
        return sequence(self.rules, self.archived)

    def outlook(self, results: Sequence[StartResult], now: float) -> str:
        """How many starts still fit, and what that leaves undecided."""
        return outlook(self._estimate(results), self._schedule(results), self.deadline - now)

    def next_run(
        self, results: Sequence[StartResult], argv: Sequence[str], directory: str, reserve_s: float
    ) -> str:
        """The run that would decide an undecided experiment: starts, minutes, and the command."""
        estimate = self._estimate(results)
        schedule = self._schedule(results)
        candidates = schedule.made.count(Arm.CANDIDATE)
        # More were made for a candidate that failed: such a run would not go on.
        if schedule.remaining and candidates <= self.rules.retries:
            return resumed_run(estimate, schedule, argv, directory, reserve_s)
        retries = self.rules.retries + _MORE
        anew = sequence(replace(self.rules, retries=retries), self.archived)
        return new_run(estimate, anew, argv, retries, reserve_s)

    def _estimate(self, results: Sequence[StartResult]) -> Estimate:
        durations = []
        for result in results:
            # A start that died took less time than one that answers everything.
            if result.failure is None and not result.cut_short:
                durations.append((result.start.arm, result.duration_s))  # noqa: PERF401
        return corrected(self.prior, durations)

    def _schedule(self, results: Sequence[StartResult]) -> Schedule:
        return Schedule(
            order=self.order,
            made=tuple(result.start.arm for result in results if result.counts),
            archived=self.archived,
            least_candidates=self.rules.least_candidates,
            alpha=self.rules.alpha,
        )

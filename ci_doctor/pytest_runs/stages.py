# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: the stages of a run, from all tests to what failed once more."""

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_doctor.pytest_runs.judging import Circumstances, judge_tests
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.quarantine import QuarantineEntry, quarantine
from ci_doctor.pytest_runs.request import PytestRequest, RerunPlace
from ci_doctor.pytest_runs.reruns import (
    MOST_RERUN,
    SuiteFailure,
    orders_to_repeat,
    passed_alone,
    repeat_orders,
    rerun_alone,
    rerun_plan,
    suite_failures,
)
from ci_doctor.pytest_runs.result import PytestResult
from ci_doctor.pytest_runs.suite import run_suite
from ci_doctor.pytest_runs.whole import is_usage_error, run_problems

if TYPE_CHECKING:
    from ci_doctor.pytest_runs.attempt import PytestSession
    from ci_doctor.pytest_runs.causes import TestCauses


class TestStages:
    """Runs the stages by `request`; `result` is what is known so far.

    plan: of the suite. scratch: a folder for what is read. tell: gets a sentence before each run.
    """

    __test__ = False  # no class of tests, whatever its name

    def __init__(
        self,
        request: PytestRequest,
        plan: PytestPlan,
        runner: PytestRunner,
        scratch: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._request = request
        self._plan = plan
        self._runner = runner
        self._scratch = scratch
        self._tell = tell
        self.sessions: list[PytestSession] = []
        self._failures: tuple[SuiteFailure, ...] = ()
        self._too_many = False

    def run(self) -> None:
        """Run all stages, or as far as a signal lets us."""
        suite = run_suite(self._runner, self._plan)
        self.sessions += suite
        if is_usage_error(suite[0]):
            return
        self._failures = suite_failures(suite)
        self._too_many = len(self._failures) > MOST_RERUN
        if self._request.rerun_in is RerunPlace.FRESH and not self._too_many:
            self._rerun(rerun_plan(self._plan, suite[0]))

    def _rerun(self, plan: PytestPlan) -> None:
        reruns = self._request.reruns
        alone = rerun_alone(self._runner, plan, self._failures, reruns=reruns, tell=self._tell)
        self.sessions += alone
        orders = orders_to_repeat(passed_alone(self._failures, alone))
        self.sessions += repeat_orders(self._runner, plan, orders, self._tell)

    def result(self, entries: Sequence[QuarantineEntry], today: dt.date) -> PytestResult:
        """What the runs show; `entries` are those of the quarantine."""
        causes = self._causes()
        first = {each.test for each in self._failures if each.is_order_known and not each.before}
        known = Circumstances(first=first)
        if causes is not None:
            known = replace(known, causes=causes.titles, outside=causes.outside)
        judged = judge_tests(self.sessions, known)
        held = quarantine(entries, [each.test for each in judged], today)
        suite = [each for each in self.sessions if each.kind.is_of_suite]
        return PytestResult(
            python=self._plan.python,
            args=self._request.args,
            sessions=tuple(self.sessions),
            judged=judged,
            problems=run_problems(suite),
            quarantined=held.held,
            over=held.over,
            unused=held.unused,
            too_many=self._too_many,
            interrupted=self.sessions[-1].interrupted,
            diagnosis_problem=None if causes is None else causes.problem,
        )

    def _causes(self) -> "TestCauses | None":
        """The root causes in what failed; None if nothing failed."""
        if not self._failures or self._runner.is_interrupted:
            return None
        # A green suite needs none of this.
        from ci_doctor.pytest_runs.causes import FailedRun, find_causes

        failed: dict[str, list[FailedRun]] = {each.test: [] for each in self._failures}
        for session in self.sessions:
            for attempt in session.attempts:
                if attempt.test in failed and not attempt.is_green:
                    failed[attempt.test].append(FailedRun(attempt=attempt, log=session.log))
        return find_causes(failed, self._scratch, self._request.rules)

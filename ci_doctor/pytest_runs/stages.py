# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: the stages of a run, from all tests to what failed once more."""

import datetime as dt
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_doctor.model.verdict import Verdict, is_green
from ci_doctor.pytest_runs.attempt import collected_tests
from ci_doctor.pytest_runs.baseline import BaseCheckout, BaseCommit, base_checkout, base_problem
from ci_doctor.pytest_runs.baseline_runs import (
    all_new_tests,
    find_new_tests,
    run_at_base,
    run_new_tests,
)
from ci_doctor.pytest_runs.judging import Circumstances, TestJudgement, judge_tests
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.quarantine import Quarantine, QuarantineEntry, quarantine
from ci_doctor.pytest_runs.remembered import Remembered
from ci_doctor.pytest_runs.request import PytestRequest, RerunPlace
from ci_doctor.pytest_runs.reruns import (
    LEAST_TIME_S,
    MOST_RERUN,
    OF_THE_SUITE,
    Reruns,
    RerunTime,
    SuiteFailure,
    rerun_plan,
    retried_failures,
    suite_failures,
)
from ci_doctor.pytest_runs.result import BaselineShown, PytestResult
from ci_doctor.pytest_runs.suite import further_plan, run_all, run_suite
from ci_doctor.pytest_runs.whole import (
    RunProblem,
    fails_on_flaky,
    is_usage_error,
    not_run_tests,
    question_of,
    run_problems,
)

if TYPE_CHECKING:
    from ci_doctor.pytest_runs.attempt import PytestSession
    from ci_doctor.pytest_runs.causes import TestCauses
    from ci_doctor.pytest_runs.explained_test import ExplainedTest


class TestStages:
    """Runs the stages by `request`; `result` is what is known so far.

    plan: of the suite. entries: of the quarantine, today. base: the commit of `--baseline`. scratch: a folder for what is made on the way.
    tell: gets a sentence before each run.
    """

    __test__ = False  # no class of tests, whatever its name

    def __init__(  # noqa: PLR0913 - what all stages share
        self,
        request: PytestRequest,
        plan: PytestPlan,
        runner: PytestRunner,
        scratch: Path,
        tell: Callable[[str], None],
        *,
        entries: Sequence[QuarantineEntry] = (),
        today: dt.date = dt.date.max,
    ) -> None:
        self.sessions: list[PytestSession] = []
        self._request = request
        self._plan = plan
        self._again = plan  # for runs of chosen tests
        self._runner = runner
        self._scratch = scratch
        self._tell = tell
        self._entries = entries
        self._today = today
        self._failures: tuple[SuiteFailure, ...] = ()
        self._known = Circumstances()
        self._reruns: Reruns | None = None
        self._shown: BaselineShown | None = None
        self._problems: tuple[RunProblem, ...] = ()
        self._explained: tuple[ExplainedTest, ...] = ()
        self._past = Remembered(request)

    def run(self, base: BaseCommit | None) -> None:
        """Run all stages, or as far as a signal lets us."""
        suite = run_suite(self._runner, self._plan)
        self.sessions += suite
        if is_usage_error(suite[0]) or question_of(self._request.args, suite[0]) is not None:
            return
        self._again = rerun_plan(self._plan, suite[0])
        try:
            self._look_again()
            self._run_what_is_left()
            if not self._runner.is_interrupted:
                self._look_before_the_change(base)
            if not self._has_too_many:
                self._explain()
        except OSError as error:
            # A test may have removed the very directory. What is known so far stays known.
            text = f"no further run could be started: {error}"
            self._problems = (*self._problems, RunProblem(text=text))

    def _look_again(self) -> None:
        """Run again what failed in the suite, and has not run again so far."""
        suite = self._suite
        seen = {each.test for each in self._failures}
        self._failures = suite_failures(suite)
        counts = collected_tests(suite)
        self._known = replace(
            self._known,
            not_run=frozenset(not_run_tests(suite)),
            repeated=frozenset(name for name, count in counts.items() if count > 1),
        )
        if self._request.rerun_in is not RerunPlace.FRESH or self._has_too_many:
            return
        if self._reruns is None:
            self._reruns = Reruns(
                self._runner,
                self._again,
                RerunTime(self._rerun_s),
                reruns=self._request.reruns,
                tell=self._tell,
            )
        done = len(self._reruns.sessions)
        try:
            self._reruns.run([each for each in self._failures if each.test not in seen])
        finally:
            self.sessions += self._reruns.sessions[done:]
            self._known = replace(
                self._known,
                alike=self._reruns.alike,
                out_of_time=frozenset(self._reruns.out_of_time),
            )

    @property
    def _rerun_s(self) -> float:
        """The time for reruns: what the user says, else by the time of the suite."""
        if self._request.rerun_s is not None:
            return self._request.rerun_s
        took_s = sum(session.duration_s for session in self._suite)
        return max(LEAST_TIME_S, OF_THE_SUITE * took_s)

    @property
    def _suite(self) -> list["PytestSession"]:
        return [each for each in self.sessions if each.kind.is_of_suite]

    def _run_what_is_left(self) -> None:
        """Run the tests behind a failure that decides nothing, since it is flaky or in quarantine."""
        while not self._runner.is_interrupted:
            judged = self._judged()
            plan = further_plan(self._plan, self._suite)
            if plan is None or self._is_red(judged) or run_problems(self._suite, is_red=True):
                return
            count = f"the {len(plan.tests)} tests" if plan.tests else "the tests"
            self._tell(f"running {count} that pytest left out: no failure before them decides")
            self.sessions += run_all(self._runner, plan, self._suite)
            self._look_again()

    def _is_red(self, judged: Sequence[TestJudgement]) -> bool:
        """Whether a test that decides has not passed, and is not flaky."""
        held = self._quarantine(judged).held
        return any(not is_green(each.verdict) and each.test not in held for each in judged)

    def _quarantine(self, judged: Sequence[TestJudgement]) -> Quarantine:
        # A test that did not come to run is one of the suite all the same.
        names = dict.fromkeys([*(each.test for each in judged), *self._known.not_run])
        return quarantine(self._entries, names, self._today)

    def _look_before_the_change(self, base: BaseCommit | None) -> None:
        """Run at the base what is in question; without a base, the history says which tests are new."""
        proves_new = self._request.new_tests > 1
        if base is None:
            if proves_new:
                self._prove_new_tests(None)
        elif self._failures or proves_new:
            with base_checkout(base, self._scratch) as checkout:
                self._compare(checkout)

    @property
    def _has_too_many(self) -> bool:
        return len(self._failures) > MOST_RERUN

    def _compare(self, checkout: BaseCheckout) -> None:
        """Find the new tests and run them again; run at the base what failed."""
        self._shown = BaselineShown(commit=checkout.base.commit)
        if self._request.new_tests > 1:
            self._prove_new_tests(checkout)
        failed = [each for each in self._judged() if each.verdict is Verdict.FAILED]
        if not failed or self._has_too_many or self._runner.is_interrupted:
            return
        self._tell(f"running {len(failed)} failed tests at the base")
        plan = checkout.plan(self._again, self.sessions[0].path)
        sessions = run_at_base(self._runner, plan, failed, self._failures)
        for session in sessions:
            problem = base_problem(session)
            if problem is None:
                self.sessions.append(session)
            else:
                # What it shows is no evidence.
                self._shown = replace(self._shown, problem=problem)
                self.sessions.append(replace(session, attempts=()))

    def _prove_new_tests(self, checkout: BaseCheckout | None) -> None:
        first = self.sessions[0]
        sources = []
        if checkout is not None:
            self._tell("collecting the tests of the base")
            sources.append(find_new_tests(self._runner, self._again, checkout, first))
        if self._request.past is not None:
            sources.append(self._past.new_tests(first.collected or ()))
        all_new = all_new_tests(sources)
        if all_new.problem is not None:
            text = f"--new-tests: which tests are new is not known: {all_new.problem}"
            self._problems = (*self._problems, RunProblem(text=text))
            return
        times = self._request.new_tests
        self._known = replace(self._known, new=all_new.names, new_runs=times)
        failed = {failure.test for failure in self._failures}
        green = [name for name in all_new.names if name not in failed]
        if green:
            self.sessions += run_new_tests(
                self._runner, self._again, green, times=times - 1, tell=self._tell
            )

    def _judged(self) -> tuple[TestJudgement, ...]:
        return judge_tests(self.sessions, self._known)

    def _explain(self) -> None:
        """Name the kinds of flaky tests, if that was asked for."""
        budget_s = self._request.explain_s
        failures = {each.test: each for each in (*self._failures, *retried_failures(self._suite))}
        if budget_s is None or not failures or self._runner.is_interrupted:
            return
        # A run without it needs none of this.
        from ci_doctor.pytest_runs.explaining import Explainer, explain_failures

        self._explained = explain_failures(
            Explainer(self._again, self._runner, self._scratch, self._tell),
            tuple(failures.values()),
            self.sessions,
            budget_s,
        )
        self._known = replace(
            self._known, trials={each.test: each.counts for each in self._explained}
        )

    def result(self) -> PytestResult:
        """What the runs show."""
        causes = self._causes()
        if causes is not None:
            self._known = replace(self._known, causes=causes.titles, outside=causes.outside)
        judged = self._judged()
        if not self._has_too_many and not self._runner.is_interrupted:
            judged = self._past.judged(judged)
        held = self._quarantine(judged)
        suite = self._suite
        long_green = {}
        if not self._runner.is_interrupted:
            long_green = self._past.long_green(held.held, judged)
        return PytestResult(
            python=self._plan.python,
            args=self._request.args,
            sessions=tuple(self.sessions),
            judged=judged,
            problems=(*run_problems(suite, is_red=self._is_red(judged)), *self._problems),
            quarantined=held.held,
            over=held.over,
            unused=held.unused,
            wide=held.wide,
            long=held.long,
            too_many=self._has_too_many,
            base=self._shown,
            new=tuple(self._known.new),
            not_run=len(self._known.not_run),
            explained=self._explained,
            fails_on_flaky=fails_on_flaky(suite),
            rerun_s=None if self._reruns is None else self._rerun_s,
            out_of_time=tuple(self._known.out_of_time),
            interrupted=self._runner.interrupted_by,
            long_green=long_green,
            past_problem=self._past.problem,
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
        temporary = Path(self._request.environ.get("TMPDIR") or tempfile.gettempdir())
        places = (self._request.directory.absolute(), temporary)
        return find_causes(failed, places, self._request.rules)

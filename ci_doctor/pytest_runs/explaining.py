# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: explains the flaky tests of a suite, each by trials of its own."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind
from ci_doctor.pytest_runs.explain.command_line import options_for_tests, shell_command
from ci_doctor.pytest_runs.explain.driver import explained
from ci_doctor.pytest_runs.explain.explanation import ExplainedSuspect
from ci_doctor.pytest_runs.explain.reading import CRASHED, TIMED_OUT
from ci_doctor.pytest_runs.explain.report import (
    VICTIMS,
    explained_finding,
    explanation_facts,
)
from ci_doctor.pytest_runs.explain.runner import TrialRunner
from ci_doctor.pytest_runs.explain.suspect import Suspect, error_class
from ci_doctor.pytest_runs.explain.trial import Ending, FlakyTrial
from ci_doctor.pytest_runs.explained_test import ExplainedTest
from ci_doctor.pytest_runs.judging import TrialCounts
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.reruns import SuiteFailure
from ci_doctor.system import clock

# Of one test in a trial, if the user gives no limit: a condition may make it hang.
_TEST_LIMIT_S: Final = 120.0


def suspects_of(
    failures: Sequence[SuiteFailure], sessions: Sequence[PytestSession]
) -> tuple[Suspect, ...]:
    """The failed tests of a suite as suspects, those first that are known to pass at times. Pure.

    One that failed in each attempt is a suspect only if it ran in another order than the files'.
    """
    flaky: list[Suspect] = []
    failing: list[Suspect] = []
    for failure in failures:
        suspect = _suspect(failure, sessions)
        if not suspect.always_failed:
            flaky.append(suspect)
        elif suspect.before and suspect.before != failure.before:
            failing.append(suspect)
    return (*flaky, *failing)


def _suspect(failure: SuiteFailure, sessions: Sequence[PytestSession]) -> Suspect:
    has_ever_passed = any(_passes_in(session, failure.test) for session in sessions)
    reruns = [each for each in sessions if not each.kind.is_of_suite]
    before = failure.before
    if not has_ever_passed and reruns:
        before = _collected_before(failure.test, sessions[0])
    return Suspect(
        test=failure.test,
        before=before,
        error=_error(failure),
        hash_seed=_number(sessions[0].hash_seed),
        seed=sessions[0].seed,
        always_failed=not has_ever_passed and bool(reruns),
    )


def _passes_in(session: PytestSession, test: str) -> bool:
    """Whether an attempt passed, be it after others that failed."""
    return any(attempt.is_green for attempt in session.attempts_of(test))


def _collected_before(test: str, session: PytestSession) -> tuple[str, ...]:
    """The tests before it in the order of the files: a brittle test may need one of them."""
    collected = session.collected or ()
    return collected[: collected.index(test)] if test in collected else ()


def _error(failure: SuiteFailure) -> str | None:
    if failure.attempt.outcome is PytestOutcome.TIMEOUT:
        return TIMED_OUT
    if failure.attempt.outcome in {PytestOutcome.CRASHED, PytestOutcome.LOST}:
        return CRASHED
    return error_class(failure.attempt.message)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def explain_failures(
    explainer: "Explainer",
    failures: Sequence[SuiteFailure],
    sessions: Sequence[PytestSession],
    budget_s: float,
) -> tuple[ExplainedTest, ...]:
    """Why the failed tests of a suite are flaky, within about `budget_s` seconds."""
    plan = explainer.plan
    root = sessions[0].root

    def command_of(trial: FlakyTrial) -> str:
        return trial_command(trial, plan, root, plan.directory)

    suspects = suspects_of(failures, sessions)
    if not suspects:
        explainer.tell("no failed test is known to pass at times: there is no flaky one to explain")
    tests = []
    for found in explainer.explain(suspects, budget_s):
        test = ExplainedTest(
            test=found.explanation.test,
            finding=explained_finding(found, command_of),
            facts=explanation_facts(found, command_of),
            counts=trial_counts(found),
        )
        tests.append(test)
    return tuple(tests)


def trial_counts(found: ExplainedSuspect) -> TrialCounts:
    """What the trials add to the attempts of a test. Pure."""
    explanation = found.explanation
    breaks = explanation.kind in VICTIMS and explanation.expected is Ending.FAILED
    return TrialCounts(passed=found.alone.passed, failed=found.alone.failed, needs_order=breaks)


def share_of(left_s: float, budget_s: float, suspects: int) -> float:
    """The seconds for the next of `suspects`, of which `left_s` of the budget are left. Pure.

    A quarter of the budget at least: shares that explain none of many tests are lost, and the
    culprit of the first one often explains the others in a few runs.
    """
    return max(left_s / suspects, min(left_s, budget_s / 4))


def culprits_of(found: Sequence[ExplainedSuspect]) -> tuple[str, ...]:
    """The tests that decide how those that are explained end. Pure."""
    causes = [each.explanation.cause for each in found]
    return tuple(dict.fromkeys(test for cause in causes if cause for test in cause.before))


class Explainer:
    """Explains suspects, one after the other, within one budget.

    plan: for runs of chosen tests in one process. scratch: a folder for what the trials write.
    tell: gets a sentence now and then.
    """

    def __init__(
        self,
        plan: PytestPlan,
        runner: PytestRunner,
        scratch: Path,
        tell: Callable[[str], None],
    ) -> None:
        self.plan = plan
        self._runner = runner
        self._scratch = scratch / "trials"
        self.tell = tell

    def explain(self, suspects: Sequence[Suspect], budget_s: float) -> tuple[ExplainedSuspect, ...]:
        """An explanation for each suspect. What one of them leaves of its time, the others share."""
        end = clock.now() + budget_s
        found: list[ExplainedSuspect] = []
        for index, suspect in enumerate(suspects):
            if self._runner.is_interrupted:
                break
            left_s = max(0.0, end - clock.now())
            share_s = share_of(left_s, budget_s, len(suspects) - index)
            self.tell(f"explaining {suspect.test}, for at most {share_s:.0f} s")
            informed = replace(suspect, likely=culprits_of(found))
            found.append(self._explained(informed, index, share_s))
        return tuple(found)

    def _explained(self, suspect: Suspect, index: int, budget_s: float) -> ExplainedSuspect:
        scratch = self._scratch / f"suspect-{index}"
        scratch.mkdir(parents=True)
        trials = TrialRunner(
            python=str(self.plan.python),
            arguments=self.plan.args,
            environ=self.plan.environ,
            scratch=scratch,
            own=self._scratch.parent,
            execute=self._execute,
        )
        return explained(
            suspect,
            trials,
            budget_s,
            lambda number: self._say(suspect, number),
            is_over=lambda: self._runner.is_interrupted,
        )

    def _say(self, suspect: Suspect, number: int) -> None:
        if number % 10 == 0:
            self.tell(f"explaining {suspect.test}: run {number}")

    def _execute(self, command: Sequence[str], environ: Mapping[str, str]) -> int | None:
        """Make a trial below the guardian, so that nothing of it is left."""
        # The command line of a plan begins with the interpreter, `-m pytest` and the recorder.
        plan = replace(
            self.plan,
            kind=RunKind.TRIAL,
            args=tuple(command[3:]),
            environ=environ,
            tests=(),
            hash_seed=None,
            timeout_s=self.plan.timeout_s or _TEST_LIMIT_S,
        )
        session = self._runner.run(plan, logs=self._scratch)
        if any(each.outcome is PytestOutcome.TIMEOUT for each in session.attempts):
            return None
        return session.exit_code if session.exit_code is not None else -1


def trial_command(trial: FlakyTrial, plan: PytestPlan, root: str | None, directory: Path) -> str:
    """The shell command of a trial, for a shell in `directory`. Reads which words are paths."""

    def is_path(word: str) -> bool:
        return not word.startswith("-") and (directory / word.partition("::")[0]).exists()

    # The suite ran here: its relative options and the files of its tests belong to this directory.
    def path_of(file: str) -> str:
        return os.path.relpath(Path(root or directory, file), directory)

    options = options_for_tests(plan.args, is_path)
    return shell_command(trial, str(plan.python), options, path_of)

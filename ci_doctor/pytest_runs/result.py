# SPDX-License-Identifier: Apache-2.0
"""All that a run of `ci-doctor pytest` knows at its end. Pure."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.attempt import PytestSession
from ci_doctor.pytest_runs.explained_test import ExplainedTest
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.quarantine import QuarantineEntry
from ci_doctor.pytest_runs.whole import RunProblem


class BaselineShown(Struct, frozen=True, kw_only=True):
    """The base: its commit, and a sentence if it shows nothing."""

    commit: str
    problem: str | None = None


class PytestResult(Struct, frozen=True, kw_only=True):
    """sessions: in the order in which they ran. judged: each test, by the order of the suite.

    quarantined: by node id, the entry that holds for a test. over, unused: entries that hold no longer,
    and entries of no test. wide: entries with how many tests they hold. long: entries that end too late. too_many: so many tests failed that none was run again. not_run: tests that
    pytest stopped before, after a failure. interrupted: the signal to ci-doctor. diagnosis_problem: a
    sentence if causes could not be looked for. explained: the kinds of flaky tests. long_green:
    by the name in its entry, how long the tests of an entry have been green. past_problem: why the
    history gave no answer. fails_on_flaky: pytest-rerunfailures ended pytest with 7. rerun_s: the time
    for reruns. out_of_time: tests for whose reruns it was not enough.
    """

    python: Path
    args: tuple[str, ...]
    sessions: tuple[PytestSession, ...]
    judged: tuple[TestJudgement, ...]
    problems: tuple[RunProblem, ...]
    quarantined: dict[str, QuarantineEntry] = {}
    wide: tuple[tuple[QuarantineEntry, int], ...] = ()
    long: tuple[QuarantineEntry, ...] = ()
    over: tuple[QuarantineEntry, ...] = ()
    unused: tuple[QuarantineEntry, ...] = ()
    too_many: bool = False
    base: BaselineShown | None = None
    new: tuple[str, ...] = ()
    not_run: int = 0
    interrupted: str | None = None
    diagnosis_problem: str | None = None
    explained: tuple[ExplainedTest, ...] = ()
    long_green: dict[str, str] = {}
    past_problem: str | None = None
    fails_on_flaky: bool = False
    rerun_s: float | None = None
    out_of_time: tuple[str, ...] = ()

    @property
    def suite(self) -> tuple[PytestSession, ...]:
        """The sessions of all tests."""
        return tuple(each for each in self.sessions if each.kind.is_of_suite)

    @property
    def deciding(self) -> tuple[TestJudgement, ...]:
        """The tests that decide: those in quarantine do not."""
        if not self.quarantined:
            return self.judged
        return tuple(each for each in self.judged if each.test not in self.quarantined)

    def with_verdict(self, *verdicts: Verdict) -> tuple[TestJudgement, ...]:
        """The deciding tests with one of these verdicts."""
        return tuple(each for each in self.deciding if each.verdict in verdicts)


def run_verdict(result: PytestResult) -> Verdict:
    """The verdict of the whole: the most urgent one of its tests, and of the run itself.

    A failure stands above missing evidence, and that above a cause outside the change: 75 is retried,
    and a retry must hide neither.
    """
    verdicts = {each.verdict for each in result.deciding}
    if any(problem.is_failure for problem in result.problems):
        verdicts.add(Verdict.FAILED)
    if any(not problem.is_failure for problem in result.problems):
        verdicts.add(Verdict.VOID)
    for verdict in (Verdict.REGRESSION, Verdict.FAILED, Verdict.VOID, Verdict.INFRA, Verdict.FLAKY):
        if verdict in verdicts:
            return verdict
    return Verdict.PASS

# SPDX-License-Identifier: Apache-2.0
"""From a result to the outcome that is reported."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.model.outcome import CaseOutcome, Verdict
from ci_doctor.pytest_runs.attempt import PytestSession, RunKind
from ci_doctor.pytest_runs.findings import PytestFacts, interrupted_outcome, outcome_of
from ci_doctor.pytest_runs.quarantine import Quarantine, QuarantineEntry
from ci_doctor.pytest_runs.result import PytestResult, RunProblem, TestJudgement
from tests.support.pytest_sessions import an_attempt

HERE = Path("/work")


def judged(name: str, verdict: Verdict, *outcomes: str) -> TestJudgement:
    kinds = [RunKind.SUITE] + [RunKind.ALONE] * (len(outcomes) - 1)
    attempts = tuple(
        an_attempt(outcome, name, run=kind, message="it broke")
        for kind, outcome in zip(kinds, outcomes, strict=True)
    )
    return TestJudgement(test=name, verdict=verdict, why="why", attempts=attempts)


def result(*tests: TestJudgement, **changes: Any) -> PytestResult:
    attempts = tuple(each for test in tests for each in test.attempts)
    session = PytestSession(
        kind=RunKind.SUITE, attempts=attempts, exit_code=0, finished=0, root="/work"
    )
    usual: dict[str, Any] = {
        "python": Path("/py"), "args": (), "sessions": (session,), "judged": tests, "problems": (),
    }  # fmt: skip
    return PytestResult(**(usual | changes))


GREEN = judged("a.py::g", Verdict.PASS, "passed")


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([], Verdict.PASS),
        ([Verdict.FLAKY], Verdict.FLAKY),
        ([Verdict.FLAKY, Verdict.INFRA], Verdict.INFRA),
        # 75 is retried: it must not hide that results are missing, nor a failure.
        ([Verdict.INFRA, Verdict.VOID], Verdict.VOID),
        ([Verdict.VOID, Verdict.FAILED, Verdict.INFRA], Verdict.FAILED),
        ([Verdict.FAILED, Verdict.REGRESSION], Verdict.REGRESSION),
    ],
)
def test_the_most_urgent_verdict_is_that_of_the_run(
    others: list[Verdict], verdict: Verdict
) -> None:
    tests = [judged(f"a.py::{each}", each, "failed") for each in others]

    assert outcome_of(result(GREEN, *tests), HERE, None).verdict is verdict


@pytest.mark.parametrize(("is_failure", "verdict"), [(True, Verdict.FAILED), (False, Verdict.VOID)])
def test_a_problem_of_the_run_decides_over_green_tests(is_failure: bool, verdict: Verdict) -> None:
    problem = RunProblem(text="something", is_failure=is_failure)

    outcome = outcome_of(result(GREEN, problems=(problem,)), HERE, None)

    assert (outcome.verdict, outcome.summary) == (verdict, "1 passed; something")


def test_a_failure_is_a_case_with_its_attempts_and_a_command_to_repeat_it() -> None:
    failed = judged("t/a.py::T::f", Verdict.FAILED, "failed", "timeout")

    outcome = outcome_of(result(failed), HERE, None)

    (case,) = outcome.cases
    assert (case.group, case.name, case.outcome) == ("t.a.T", "f", CaseOutcome.FAILED)
    assert [each.outcome for each in case.attempts] == [CaseOutcome.FAILED, CaseOutcome.ERROR]
    assert outcome.findings[0].remedy == "/py -m pytest t/a.py::T::f"
    assert outcome.findings[0].summary == "t/a.py::T::f: why: it broke"


def test_a_quarantined_failure_does_not_decide_and_is_no_red_case() -> None:
    failed = judged("a.py::f", Verdict.FAILED, "failed")
    entry = QuarantineEntry(test="a.py::f", reason="r", owner="o", until=dt.date(2999, 1, 1))

    held = Quarantine(held={"a.py::f": entry})
    outcome = outcome_of(result(GREEN, failed, quarantine=held), HERE, None)

    assert outcome.verdict is Verdict.PASS
    assert [case.outcome for case in outcome.cases] == [CaseOutcome.PASSED, CaseOutcome.SKIPPED]
    assert isinstance(outcome.facts, PytestFacts)
    assert outcome.facts.counts == {"pass": 1, "quarantined": 1}


def test_a_suite_that_skips_all_tests_shows_nothing() -> None:
    skipped = judged("a.py::s", Verdict.PASS, "skipped")

    outcome = outcome_of(result(skipped), HERE, None)

    assert outcome.verdict is Verdict.VOID
    assert [finding.summary for finding in outcome.findings] == ["no test decides: 1 skipped"]


def test_a_suite_that_fails_in_quarantine_shows_nothing() -> None:
    failed = judged("a.py::f", Verdict.FAILED, "failed")
    skipped = judged("a.py::s", Verdict.PASS, "skipped")
    entry = QuarantineEntry(test="a.py::f", reason="r", owner="o", until=dt.date(2999, 1, 1))

    held = Quarantine(held={"a.py::f": entry})
    outcome = outcome_of(result(failed, skipped, quarantine=held), HERE, None)

    assert outcome.verdict is Verdict.VOID
    said = [finding.summary for finding in outcome.findings]
    assert "no test decides: 1 quarantined and 1 skipped" in said


def test_an_interrupted_run_has_no_verdict_and_says_what_is_known() -> None:
    outcome = interrupted_outcome(outcome_of(result(GREEN), HERE, None), "SIGTERM")

    assert outcome.verdict is None
    assert outcome.error is not None
    assert outcome.error.message == "interrupted by SIGTERM; 1 passed before that"

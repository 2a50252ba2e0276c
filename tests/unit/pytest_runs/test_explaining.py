"""Which failed tests of a suite are explained, and from which circumstances."""

from pathlib import Path

import pytest

from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.explaining import culprits_of, share_of, suspects_of, trial_command
from ci_doctor.pytest_runs.explanation import ExplainedSuspect, Explanation
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.reruns import SuiteFailure, retried_failures
from ci_doctor.pytest_runs.trial import CRASHED, TIMED_OUT, FlakyTrial, Suspect

COLLECTED = ("a.py::s", "a.py::p", "a.py::t")


def attempt(outcome: PytestOutcome, message: str | None = "KeyError: 'x'") -> TestAttempt:
    return TestAttempt(test="a.py::t", outcome=outcome, message=message)


def session(kind: RunKind, outcome: PytestOutcome) -> PytestSession:
    return PytestSession(
        kind=kind, attempts=(attempt(outcome),), collected=COLLECTED, hash_seed="7", seed=3
    )


def suspects(
    alone: PytestOutcome | None,
    *,
    before: tuple[str, ...] = ("a.py::p",),
    failed: TestAttempt | None = None,
) -> tuple[Suspect, ...]:
    sessions = [session(RunKind.SUITE, PytestOutcome.FAILED)]
    if alone is not None:
        sessions.append(session(RunKind.ALONE, alone))
    failure = SuiteFailure(
        attempt=failed or attempt(PytestOutcome.FAILED), before=before, is_order_known=True
    )
    return suspects_of([failure], sessions)


def test_a_test_that_passes_alone_is_a_suspect_with_the_circumstances_of_the_suite() -> None:
    [suspect] = suspects(PytestOutcome.PASSED)

    assert suspect == Suspect(
        test="a.py::t", before=("a.py::p",), error="KeyError", hash_seed=7, seed=3
    )


def test_a_test_that_always_failed_in_the_order_of_the_files_is_none() -> None:
    assert suspects(PytestOutcome.FAILED, before=("a.py::s", "a.py::p")) == ()


def test_a_test_that_always_failed_in_another_order_may_need_a_test_before_it() -> None:
    [suspect] = suspects(PytestOutcome.FAILED, before=())

    assert suspect.always_failed
    assert suspect.before == ("a.py::s", "a.py::p")


def test_without_reruns_every_failed_test_is_a_suspect() -> None:
    [suspect] = suspects(None)

    assert not suspect.always_failed


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (PytestOutcome.TIMEOUT, TIMED_OUT),
        (PytestOutcome.CRASHED, CRASHED),
        (PytestOutcome.LOST, CRASHED),
    ],
)
def test_a_test_that_did_not_end_is_known_by_how(outcome: PytestOutcome, error: str) -> None:
    [suspect] = suspects(PytestOutcome.PASSED, failed=attempt(outcome, None))

    assert suspect.error == error


def test_the_command_is_for_a_shell_where_the_user_stands(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    plan = PytestPlan(
        kind=RunKind.SUITE,
        python=Path("/venv/bin/python"),
        args=("tests", "-m", "fast"),
        environ={},
        directory=tmp_path,
    )
    trial = FlakyTrial(target="tests/a.py::t")

    line = "/venv/bin/python -m pytest -p no:randomly -m fast tests/a.py::t"
    assert trial_command(trial, plan, str(tmp_path), tmp_path) == line


def test_the_command_finds_a_test_whose_root_is_elsewhere(tmp_path: Path) -> None:
    here = tmp_path / "sub"
    here.mkdir()
    plan = PytestPlan(
        kind=RunKind.SUITE,
        python=Path("python"),
        args=("-c", "own.ini"),
        environ={},
        directory=here,
    )
    trial = FlakyTrial(target="tests/a.py::t", before=("sub/b.py::t[a/../b::c]",))

    options = "python -m pytest -p no:randomly -c own.ini"
    tests = "'b.py::t[a/../b::c]' ../tests/a.py::t"
    assert trial_command(trial, plan, str(tmp_path), here) == f"{options} {tests}"


def test_a_test_that_a_plugin_ran_again_until_it_passed_is_a_failure_to_explain() -> None:
    retried = PytestSession(
        kind=RunKind.SUITE,
        attempts=(attempt(PytestOutcome.FAILED), attempt(PytestOutcome.PASSED)),
        collected=COLLECTED,
    )

    [failure] = retried_failures([retried])
    [suspect] = suspects_of([failure], [retried])

    assert (suspect.test, suspect.error, suspect.always_failed) == ("a.py::t", "KeyError", False)


@pytest.mark.parametrize(
    ("left_s", "suspects", "share_s"),
    [(120.0, 1, 120.0), (120.0, 2, 60.0), (120.0, 20, 30.0), (90.0, 19, 30.0), (10.0, 9, 10.0)],
)
def test_no_share_is_below_a_quarter_of_the_budget_while_it_lasts(
    left_s: float, suspects: int, share_s: float
) -> None:
    assert share_of(left_s, 120.0, suspects) == share_s


def test_the_culprits_of_explained_tests_are_likely_for_the_next() -> None:
    causes = [("a.py::t", "a.py::u"), (), ("a.py::t",)]
    found = [
        Explanation(test="b.py::t", cause=FlakyTrial(target="b.py::t", before=before))
        for before in causes
    ]
    explained = [
        ExplainedSuspect(explanation=each, trials=1, duration_s=1.0)
        for each in (*found, Explanation(test="b.py::u"))
    ]

    assert culprits_of(explained) == ("a.py::t", "a.py::u")

# SPDX-License-Identifier: Apache-2.0
"""Whether the suite as a whole is evidence."""

from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.pytest_runs.attempt import PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.records import StuckCollection
from ci_doctor.pytest_runs.result import fails_on_flaky, not_run_tests, question_of, run_problems
from tests.support.pytest_sessions import an_attempt

STUCK = StuckCollection(name="test_a.py", limit_s=30.0, stack="in import")


def attempt(name: str, outcome: str = "passed") -> TestAttempt:
    return an_attempt(outcome, name, index=1)


def session(**changes: Any) -> PytestSession:
    usual: dict[str, Any] = {
        "kind": RunKind.SUITE,
        "collected": ("a",),
        "attempts": (attempt("a"),),
        "exit_code": 0,
        "finished": 0,
    }
    return PytestSession(**(usual | changes))


def test_a_run_that_ends_as_its_tests_do_has_no_problem() -> None:
    failed = session(attempts=(attempt("a", "failed"),), exit_code=1, finished=1)

    assert run_problems([session()]) == ()
    assert run_problems([failed]) == ()


@pytest.mark.parametrize(
    ("changes", "is_failure"),
    [
        ({"collected": None}, False),
        ({"collected": (), "exit_code": 5, "finished": 5}, False),
        ({"collected": ("a", "b")}, False),
        # Two tests of one node id, and one attempt.
        ({"collected": ("a", "a")}, False),
        ({"collect_errors": {"b.py": "ImportError"}, "exit_code": 2, "finished": 2}, False),
        ({"collected": None, "finished": None, "signal": "SIGKILL", "stuck": STUCK}, False),
        ({"finished": None, "signal": "SIGKILL", "stuck": STUCK}, False),
        ({"internal_errors": ("x",), "exit_code": 3, "finished": 3}, False),
        ({"damaged": 1}, False),
        ({"other_failures": 1, "exit_code": 1, "finished": 1}, True),
        ({"exit_code": 1, "finished": 1}, True),
        ({"exit_code": None, "signal": "SIGSEGV"}, True),
        ({"finished": None}, True),
    ],
)
def test_what_the_tests_do_not_explain_is_a_problem(
    changes: dict[str, Any], is_failure: bool
) -> None:
    problems = run_problems([session(**changes)])

    assert [problem.is_failure for problem in problems] == [is_failure]


def test_a_collection_that_hangs_names_the_file_and_shows_its_stack() -> None:
    (problem,) = run_problems([session(collected=None, finished=None, stuck=STUCK)])

    assert (
        problem.text == "test_a.py was being collected for longer than 30 s; ci-doctor ended pytest"
    )
    assert problem.detail == "in import"


def test_tests_behind_a_failure_need_no_result_only_if_it_decides() -> None:
    stopped = session(
        collected=("a", "b"),
        attempts=(attempt("a", "failed"),),
        exit_code=1,
        finished=1,
        stopped="1",
        maxfail=1,
    )

    assert not_run_tests([stopped]) == ("b",)
    assert run_problems([stopped], is_red=True) == ()
    # A flaky failure explains no test that did not run.
    assert [problem.is_failure for problem in run_problems([stopped])] == [False]


def test_a_stop_by_a_plugin_excuses_no_test_although_one_failed() -> None:
    stopped = session(
        collected=("a", "b"),
        attempts=(attempt("a", "failed"),),
        exit_code=2,
        finished=2,
        stopped="x",
    )

    (problem,) = run_problems([stopped], is_red=True)

    assert problem.text == "1 of 2 collected tests have no result; pytest stopped: x"


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_code": 9, "finished": 9, "is_changed": True},
        {"exit_code": 7, "finished": 7, "is_changed": True},
        {"exit_code": 1, "finished": 1, "is_changed": True},
        {"exit_code": 3, "finished": 3},
        {"exit_code": 0, "finished": None},
        {"exit_code": 2, "finished": 2, "stopped": "a plugin"},
    ],
)
def test_a_failed_test_explains_status_1_of_pytest_alone(changes: dict[str, Any]) -> None:
    failed = {"attempts": (attempt("a", "failed"),)}

    assert [each.is_failure for each in run_problems([session(**failed, **changes)])] == [True]
    assert run_problems([session(**failed, exit_code=1, finished=1)]) == ()
    # Also in a session that is not the last one.
    both = [session(**failed, **changes), session(kind=RunKind.REST)]
    assert [each.is_failure for each in run_problems(both)] == [True]


def test_the_seven_of_rerunfailures_is_about_flaky_tests() -> None:
    retried = an_attempt("failed", index=1, phases=(("call", "rerun", 0.0),))
    ended = session(
        attempts=(retried, attempt("a")),
        exit_code=7,
        finished=7,
        is_changed=True,
        plugins=("pytest-rerunfailures",),
    )

    assert run_problems([ended]) == ()
    assert fails_on_flaky([ended])
    assert not fails_on_flaky([replace(ended, plugins=())])


def test_tests_that_an_earlier_failure_left_out_are_missing_until_they_ran() -> None:
    narrowed = session(narrowed="--lf")

    assert [each.text for each in run_problems([narrowed])] == [
        "--lf left tests out, which did not run"
    ]
    rest = session(kind=RunKind.REST, collected=("b",), attempts=(attempt("b"),))
    assert run_problems([narrowed, rest]) == ()


def test_a_stop_without_a_failure_leaves_results_missing() -> None:
    stopped = session(collected=("a", "b"), stopped="pytest.exit")

    assert not_run_tests([stopped]) == ()
    assert len(run_problems([stopped])) == 1


def test_an_interruption_is_one_sentence_with_a_count_and_a_few_names() -> None:
    names = tuple(f"t{number}" for number in range(40))
    stopped = session(
        collected=("a", *names), interrupted="SIGINT", exit_code=2, finished=2, stopped="x"
    )

    problem = run_problems([stopped])[0]

    assert problem.text == "40 of 41 collected tests have no result; SIGINT interrupted the run"
    assert problem.detail.splitlines() == ["t0", "t1", "t2", "t3", "t4", "and 35 more"]


def test_tests_without_a_result_for_what_cannot_be_collected_were_not_interrupted() -> None:
    stopped = session(attempts=(), exit_code=2, finished=2, collect_errors={"b.py": "x"})

    problem = run_problems([stopped])[-1]

    assert problem.text.endswith("no result; pytest runs none if it cannot collect all")


@pytest.mark.parametrize(
    ("args", "question"),
    [
        (("tests", "--co"), "--co"),
        (("tests",), None),
        (("--", "--help"), None),
    ],
)
def test_a_question_to_pytest_is_no_run(args: tuple[str, ...], question: str | None) -> None:
    assert question_of(args, session(attempts=(), collected=None)) == question


def test_a_test_that_was_called_makes_it_a_run() -> None:
    called = an_attempt(phases=(("call", "passed", 0.0),))

    assert question_of(("--help",), session(attempts=(called,))) is None

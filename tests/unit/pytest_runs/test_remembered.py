# SPDX-License-Identifier: Apache-2.0
"""What a run makes of the answers of a history."""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from ci_doctor.errors import InfraError
from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.attempt import PytestOutcome, RunKind, TestAttempt
from ci_doctor.pytest_runs.judging import Circumstances, RunAttempt, TestJudgement, judge
from ci_doctor.pytest_runs.past import PastJob
from ci_doctor.pytest_runs.quarantine import QuarantineEntry
from ci_doctor.pytest_runs.remembered import Remembered
from ci_doctor.pytest_runs.request import PytestRequest
from tests.support.git_repository import commit, make_repository


class Answers:
    """A history in which each test passed in 50 jobs of the base."""

    def __init__(self, known: Collection[str] = (), *, is_dead: bool = False) -> None:
        self.questions: list[tuple[str, ...]] = []
        self._known = frozenset(known)
        self._is_dead = is_dead

    def jobs(
        self, commits: Sequence[str], tests: Collection[str]
    ) -> Mapping[str, Sequence[PastJob]]:
        self._ask(tests)
        at = "2026-11-03T10:00:00.000Z"
        each = PastJob(distance=0, commit=commits[0], at=at, passed=True)
        return {test: [each] * 50 for test in tests}

    def known(self, commits: Sequence[str], tests: Collection[str]) -> frozenset[str]:
        assert commits
        self._ask(tests)
        return self._known & set(tests)

    def long_green(self, tests: Collection[str]) -> str | None:
        self._ask(tests)
        return "0 of 80 failed"

    def _ask(self, tests: Collection[str]) -> None:
        self.questions.append(tuple(tests))
        if self._is_dead:
            raise InfraError("no answer within 5 s")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    make_repository(tmp_path)
    commit(tmp_path, {"b": ""})
    return tmp_path


def remembered(directory: Path, answers: Answers) -> Remembered:
    return Remembered(PytestRequest(args=(), environ={}, directory=directory, past=answers))


def judged(name: str, *tried: tuple[RunKind, str], outside: bool = False) -> TestJudgement:
    runs = tuple(
        RunAttempt(kind=kind, attempt=TestAttempt(test=name, outcome=PytestOutcome(outcome)))
        for kind, outcome in tried
    )
    known = Circumstances(outside={name}, causes={name: "no disk"}) if outside else Circumstances()
    return judge(name, runs, known)


SUITE, ALONE = RunKind.SUITE, RunKind.ALONE


def test_only_a_test_that_failed_each_time_and_for_no_outer_cause_is_asked_about(
    repository: Path,
) -> None:
    answers = Answers()
    tests = [
        judged("fails", (SUITE, "failed"), (ALONE, "failed")),
        judged("passes", (SUITE, "passed")),
        judged("flaky", (SUITE, "failed"), (ALONE, "passed"), (RunKind.ORDER, "passed")),
        judged("order", (SUITE, "failed"), (ALONE, "passed"), (RunKind.ORDER, "failed")),
        judged("base", (SUITE, "failed"), (RunKind.BASELINE, "failed")),
        judged("infra", (SUITE, "failed"), outside=True),
        judged("lost", (SUITE, "lost")),
    ]

    after = remembered(repository, answers).judged(tests)

    assert answers.questions == [("fails",)]
    assert after[0].verdict is Verdict.REGRESSION
    assert after[0].why.startswith(
        "each of 2 attempts failed; by the history it passed at the base"
    )
    assert list(after[1:]) == tests[1:]


def test_tests_that_the_history_does_not_know_are_new_if_it_knows_half_of_all(
    repository: Path,
) -> None:
    new = remembered(repository, Answers(["a"])).new_tests(["a", "b"])
    unusable = remembered(repository, Answers(["a"])).new_tests(["a", "b", "c"])

    assert (new.names, new.problem) == (("b",), None)
    assert unusable.problem == "the history knows 1 of 3 tests at the base"


def test_a_database_that_does_not_answer_is_asked_once(repository: Path) -> None:
    answers = Answers(is_dead=True)
    past = remembered(repository, answers)
    failed = judged("fails", (SUITE, "failed"))

    assert past.new_tests(["a"]).problem == "no answer within 5 s"
    assert past.judged([failed]) == (failed,)
    assert (len(answers.questions), past.problem) == (1, "no answer within 5 s")


def test_an_entry_is_green_if_none_of_its_tests_fails_now(repository: Path) -> None:
    def entry(name: str) -> QuarantineEntry:
        return QuarantineEntry(test=name, reason="r", owner="o", until=dt.date(2999, 1, 1))

    held = {"a[1]": entry("a*"), "a[2]": entry("a*"), "b": entry("b")}
    now = [
        judged("a[1]", (SUITE, "passed")),
        judged("a[2]", (SUITE, "failed")),
        judged("b", (SUITE, "passed")),
    ]

    assert remembered(repository, Answers()).long_green(held, now) == {"b": "0 of 80 failed"}

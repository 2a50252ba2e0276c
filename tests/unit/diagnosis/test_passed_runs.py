# SPDX-License-Identifier: Apache-2.0
from ci_doctor.diagnosis.lines.clean_line import CleanLine
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.passed_runs import in_passed_run, outside_of_runs, passed_runs
from ci_doctor.diagnosis.reading.log_text import TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit

BEGIN, FAILED, PASSED, STEP_FAILED = range(4)
RULES = RuleSet(
    [
        LogRule(id="runner/begins", role=Role.RUN_BEGIN, literals=("x",), regex="x"),
        LogRule(id="runner/failed", role=Role.RUN_FAILED, literals=("x",), regex="x"),
        LogRule(id="runner/passed", role=Role.RUN_PASSED, literals=("x",), regex="x"),
        LogRule(id="job/step-failed", role=Role.END, literals=("x",), regex="x"),
    ]
)


def hit(rule: int, line: int, test: str | None = None) -> Hit:
    fields = {"test": test} if test else {}
    return Hit(
        rule=rule,
        line=TextLine(line, line * 10, b"x"),
        clean=CleanLine(text="x", message="x"),
        fields=fields,
    )


def taken_back(*hits: Hit, family: str = "another") -> list[int]:
    """Of lines 1 to 9 those in which a hit of `family` is taken back."""
    runs = passed_runs(hits, RULES)
    return [line for line in range(1, 10) if in_passed_run(runs, line, family)]


def test_a_session_that_passed_takes_back_everything_in_it() -> None:
    assert taken_back(hit(BEGIN, 3), hit(PASSED, 6)) == [3, 4, 5, 6]


def test_a_session_that_failed_takes_back_nothing() -> None:
    assert taken_back(hit(BEGIN, 3), hit(FAILED, 6)) == []


def test_a_session_that_passed_does_not_take_back_the_one_before_it() -> None:
    hits = (hit(BEGIN, 1), hit(FAILED, 3), hit(BEGIN, 5), hit(PASSED, 7))
    assert taken_back(*hits) == [5, 6, 7]


def test_a_session_without_an_end_is_not_taken_back_by_the_next() -> None:
    assert taken_back(hit(BEGIN, 1), hit(BEGIN, 5), hit(PASSED, 7)) == [5, 6, 7]


def test_a_session_takes_back_those_that_its_tests_ran() -> None:
    hits = (hit(BEGIN, 1), hit(BEGIN, 3), hit(FAILED, 4), hit(PASSED, 7))
    assert taken_back(*hits) == [1, 2, 3, 4, 5, 6, 7]


def test_a_test_that_passed_takes_back_its_own_lines_only() -> None:
    hits = (hit(BEGIN, 1, "fails"), hit(BEGIN, 4, "passes"), hit(PASSED, 6, "passes"))
    assert taken_back(*hits) == [4, 5, 6]


def test_a_test_whose_begin_is_unknown_takes_back_nothing() -> None:
    assert taken_back(hit(BEGIN, 1, "fails"), hit(PASSED, 6, "passes")) == []
    assert taken_back(hit(PASSED, 6, "passes"), family="runner") == []


def test_a_run_without_a_begin_takes_back_hits_of_its_own_runner_only() -> None:
    assert taken_back(hit(PASSED, 4)) == []
    assert taken_back(hit(PASSED, 4), family="runner") == [1, 2, 3, 4]


def test_a_run_without_a_begin_goes_back_to_the_one_before_it() -> None:
    hits = (hit(FAILED, 3), hit(PASSED, 6))
    assert taken_back(*hits, family="runner") == [4, 5, 6]


def test_the_end_of_a_session_does_not_take_back_a_test_that_did_not_pass() -> None:
    assert taken_back(hit(BEGIN, 1, "fails"), hit(PASSED, 6)) == []


def test_marks_that_a_passed_session_prints_are_no_marks_of_the_job() -> None:
    session = (hit(BEGIN, 3), hit(STEP_FAILED, 4), hit(PASSED, 6))
    later = hit(STEP_FAILED, 8)

    outside = outside_of_runs((*session, later), passed_runs(session, RULES))

    assert [each.line.number for each in outside] == [3, 6, 8]


def test_marks_before_a_run_whose_begin_is_unknown_stay() -> None:
    marks = (hit(STEP_FAILED, 2), hit(PASSED, 6))

    outside = outside_of_runs(marks, passed_runs(marks, RULES))

    assert [each.line.number for each in outside] == [2, 6]

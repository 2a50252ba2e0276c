# SPDX-License-Identifier: Apache-2.0
"""Final results for readers that list every red test case, all executions for those that compare them."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from junitparser import JUnitXml
from msgspec.structs import replace

from ci_doctor.model.outcome import Attempt, Case, CaseAttempt, CaseOutcome, Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import junit, junit_attempts, renderer
from ci_doctor.render.junit import JunitForm
from tests.support.builders import a_report
from tests.support.junit_readers import (
    bktec,
    gitlab,
    is_for_junit_annotate,
    junit_annotate,
    not_xml,
)
from tests.unit.render.strategies import reports, whole

FAILED = CaseAttempt(
    outcome=CaseOutcome.FAILED, message="assert 1 == 2", detail="line 7", duration_s=1.5
)
PASSED = CaseAttempt(outcome=CaseOutcome.PASSED, duration_s=0.5, job="0190-j2")


def a_case(name: str = "test_kv", *attempts: CaseAttempt, **changes: object) -> Case:
    case = Case(group="tests.test_cache", name=name, outcome=CaseOutcome.PASSED)
    return replace(case, attempts=attempts, **changes)


FLAKY = a_case("test_kv", FAILED, PASSED)
ONCE = a_case("test_once", duration_s=2.0)
TWO_CASES = a_report(Verdict.FLAKY, cases=(FLAKY, ONCE))


def executions(report: Report) -> list[tuple[str, str, str]]:
    return bktec(junit_attempts.render(report))


def test_each_execution_is_a_test_case_of_the_same_name() -> None:
    assert executions(TWO_CASES) == [
        ("tests.test_cache", "test_kv", "failure"),
        ("tests.test_cache", "test_kv", "passed"),
        ("tests.test_cache", "test_once", "passed"),
    ]


def test_an_execution_keeps_its_words_its_time_and_its_job() -> None:
    first, second, _ = ET.fromstring(junit_attempts.render(TWO_CASES)).iter("testcase")

    assert first.attrib["time"] == "1.500"
    assert first.find("failure") is not None
    assert first.findtext("failure") == "line 7"
    assert first.findtext("system-out") == "attempt 1 of 2"
    assert second.findtext("system-out") == "attempt 2 of 2, job 0190-j2"


def test_the_final_results_have_each_case_once_and_a_retry_that_passed_green() -> None:
    final = junit.render(TWO_CASES, form=JunitForm.REQUESTS)

    assert ("tests.test_cache", "test_kv", "passed") in bktec(final)
    assert junit_annotate(final) == []
    assert len(bktec(final)) == len(gitlab(final))


def test_starts_are_cases_of_their_own() -> None:
    report = a_report(
        Verdict.FAILED,
        command="launch",
        attempts=(
            Attempt(
                name="vllm 1", outcome="died before ready", ok=False, duration_s=3.0, log="logs/1"
            ),
            Attempt(name="vllm 2", outcome="ready", ok=True, duration_s=9.0),
        ),
    )

    assert executions(report) == [
        ("ci-doctor.launch.attempts", "vllm 1", "error"),
        ("ci-doctor.launch.attempts", "vllm 2", "passed"),
    ]
    first, _ = ET.fromstring(junit_attempts.render(report)).iter("testcase")
    error = first.find("error")
    assert error is not None
    assert error.attrib["message"] == "died before ready"
    assert first.findtext("system-out") == "log: logs/1"


@pytest.mark.parametrize(
    ("report", "is_written"),
    [
        (a_report(), False),
        (a_report(cases=(ONCE,)), False),
        (a_report(attempts=(Attempt(name="a", outcome="b", ok=True, duration_s=1),)), False),
        (a_report(attempts=(Attempt(name="a", outcome="b", ok=True, duration_s=1),) * 2), True),
        (TWO_CASES, True),
    ],
)
def test_it_is_written_if_there_is_more_than_the_final_results(
    report: Report, is_written: bool
) -> None:
    assert renderer("attempts").is_for(report) is is_written


def test_of_too_many_the_cases_that_failed_are_kept_whole() -> None:
    passing = tuple(a_case(f"test_{number}") for number in range(4999))
    report = a_report(Verdict.FLAKY, cases=(*passing, FLAKY))

    read = executions(report)

    assert len(read) == 5000
    assert read[-2:] == [
        ("tests.test_cache", "test_kv", "failure"),
        ("tests.test_cache", "test_kv", "passed"),
    ]
    (suite,) = ET.fromstring(junit_attempts.render(report))
    assert suite.findtext("system-out") == "left out 1 execution; see report.json"
    assert suite.attrib["tests"] == "5000"


def test_readers_of_final_results_do_not_take_the_file_in() -> None:
    assert is_for_junit_annotate("junit-0190-j1.xml")
    assert not is_for_junit_annotate("attempts-0190-j1.xml")


def test_a_real_reader_reads_both(tmp_path: Path) -> None:
    for name, document in (
        ("attempts.xml", junit_attempts.render(TWO_CASES)),
        ("junit.xml", junit.render(TWO_CASES, form=JunitForm.REQUESTS)),
    ):
        (tmp_path / name).write_text(document)
        read = JUnitXml.fromfile(str(tmp_path / name))
        (suite,) = read
        expected = [(case, name) for case, name, _ in bktec(document)]
        assert [(case.classname, case.name) for case in suite] == expected
        counts = [len([case for case in suite if case.is_failure]), len(list(suite))]
        assert [suite.failures, suite.tests] == counts


@whole
@given(reports())
def test_any_report_makes_a_document_for_all_readers(report: Report) -> None:
    for document in (
        junit.render(report),
        junit.render(report, form=JunitForm.REQUESTS),
        junit_attempts.render(report),
    ):
        assert len(bktec(document)) <= 5000
        assert not_xml(document) == []
        # Test Engine takes in no test case without both.
        assert all(classname and name for classname, name, _ in bktec(document))

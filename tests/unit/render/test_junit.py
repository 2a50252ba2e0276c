# SPDX-License-Identifier: Apache-2.0
"""Final results for readers that list every red test case, all executions for those that compare them."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from junitparser import JUnitXml
from msgspec.structs import replace

from ci_doctor.model.outcome import (
    Attempt,
    Case,
    CaseAttempt,
    CaseOutcome,
    Evidence,
    Report,
    Verdict,
)
from ci_doctor.render import junit, renderer
from ci_doctor.render.junit import JunitForm
from tests.support.builders import a_finding, a_report, sample_reports
from tests.support.junit_readers import (
    bktec,
    gitlab,
    junit_annotate,
    not_xml,
)
from tests.unit.render.strategies import reports, whole


def parsed(
    report: Report, form: JunitForm = JunitForm.REQUESTS
) -> tuple[ET.Element, list[ET.Element]]:
    """The one suite and its test cases, after holding the form against what readers need."""
    root = ET.fromstring(junit.render(report, form=form))
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    cases = [each for each in suite if each.tag != "system-out"]
    assert {case.tag for case in cases} == {"testcase"}
    for case in cases:
        assert {"classname", "name", "time"} <= set(case.attrib)
        assert float(case.attrib["time"]) >= 0
        assert len([child for child in case if child.tag in {"failure", "error", "skipped"}]) <= 1
        assert {child.tag for child in case} <= {"failure", "error", "skipped", "system-out"}
    assert int(suite.attrib["tests"]) == len(cases) <= 5000
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[attribute]) == sum(case.find(tag) is not None for case in cases)
    return suite, cases


@pytest.mark.parametrize(
    ("report", "tag"),
    [
        (a_report(Verdict.PASS), None),
        (a_report(Verdict.FLAKY), None),
        (a_report(Verdict.FLAKY, exit_code=7), "failure"),
        (a_report(Verdict.REGRESSION), "failure"),
        (a_report(Verdict.INFRA), "error"),
        (a_report(Verdict.NONDETERMINISTIC), "error"),
        (a_report(Verdict.INCONCLUSIVE), "error"),
        (a_report(Verdict.VOID), "error"),
        (a_report(None), "error"),
    ],
)
def test_first_case_is_the_verdict(report: Report, tag: str | None) -> None:
    _, cases = parsed(report)
    assert (cases[0].attrib["classname"], cases[0].attrib["name"]) == (
        "ci-doctor.correctness",
        "verdict",
    )
    assert [child.tag for child in cases[0] if child.tag != "system-out"] == ([tag] if tag else [])


def test_green_cases_need_no_verdict_and_the_suite_says_what_is_flaky() -> None:
    report = sample_reports()["flaky"]
    suite, cases = parsed(report)
    assert [case.attrib["name"] for case in cases] == [case.name for case in report.cases]
    assert (suite.findtext("system-out") or "").startswith(
        "flaky: the baseline differs from itself"
    )


def test_by_default_one_event_is_one_failure_with_its_findings_as_text() -> None:
    evidence = (Evidence(excerpt="figure"), Evidence(file="a.py", line=7, excerpt="import b"))
    report = replace(
        sample_reports()["regression"], findings=(a_finding(evidence=evidence, remedy="rm b.py"),)
    )
    suite, cases = parsed(report, JunitForm.VERDICT)

    (verdict,) = cases
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("1", "1")
    assert (verdict.attrib["file"], verdict.attrib["line"]) == ("a.py", "7")
    text = verdict.findtext("failure") or ""
    assert "a.py:7\nimport b" in text
    assert "try: rm b.py" in text


def test_with_requests_a_red_case_needs_no_second_failure_beside_it() -> None:
    red = Case(group="g", name="r1", outcome=CaseOutcome.FAILED)
    green = Case(group="g", name="r2", outcome=CaseOutcome.PASSED)

    _, cases = parsed(a_report(Verdict.REGRESSION, cases=(red, green), findings=(a_finding(),)))
    assert [case.attrib["name"] for case in cases] == ["r1", "r2"]

    _, cases = parsed(a_report(Verdict.VOID, cases=(green,)))
    assert [case.attrib["name"] for case in cases] == ["verdict", "r2"]
    assert cases[0].find("error") is not None


def test_cases_keep_their_names_outcomes_and_times() -> None:
    suite, cases = parsed(sample_reports()["regression"])
    (failed,) = [case for case in cases if case.attrib["name"] == "r17"]
    assert failed.attrib == {"classname": "correctness.prompts", "name": "r17", "time": "0.250"}
    assert failed[0].attrib["message"] == "differs at character 212"
    assert suite.attrib["timestamp"] == "2026-11-03T09:30:00.000Z"


def test_beyond_5000_results_failures_are_kept_and_the_rest_is_counted() -> None:
    cases = tuple(
        Case(
            group="g",
            name=f"r{number}",
            outcome=CaseOutcome.FAILED if number >= 7990 else CaseOutcome.PASSED,
        )
        for number in range(8000)
    )
    suite, kept = parsed(a_report(Verdict.REGRESSION, cases=cases))
    assert len(kept) == 4999
    assert sum(case.find("failure") is not None for case in kept) == 10
    assert suite.findtext("system-out") == "left out 3001 results of 8000; see report.json"
    numbers = [int(case.attrib["name"][1:]) for case in kept]
    assert numbers == sorted(numbers)


def test_endless_detail_is_cut() -> None:
    case = Case(group="g", name="n", outcome=CaseOutcome.FAILED, detail="x" * 1_000_000)
    _, cases = parsed(a_report(Verdict.REGRESSION, cases=(case,)))
    assert (cases[0].findtext("failure") or "").endswith("… 980000 characters more in report.json")


# To draw a report costs more than to read all its forms.
@whole
@given(report=reports())
def test_any_report_gives_documents_for_all_readers_that_are_green_only_for_success(
    report: Report,
) -> None:
    succeeded = report.verdict in {Verdict.PASS, Verdict.FLAKY} and report.exit_code == 0
    documents = [junit.attempts(report)]
    for form in JunitForm:
        _, cases = parsed(report, form)
        green = all(case.find("failure") is None and case.find("error") is None for case in cases)
        assert not green or succeeded, form
        documents.append(junit.render(report, form=form))
    for document in documents:
        assert len(bktec(document)) <= 5000
        assert not_xml(document) == []
        # Test Engine takes in no test case without both.
        assert all(classname and name for classname, name, _ in bktec(document))


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
    return bktec(junit.attempts(report))


def test_each_execution_is_a_test_case_of_the_same_name() -> None:
    assert executions(TWO_CASES) == [
        ("tests.test_cache", "test_kv", "failure"),
        ("tests.test_cache", "test_kv", "passed"),
        ("tests.test_cache", "test_once", "passed"),
    ]


def test_an_execution_keeps_its_words_its_time_and_its_job() -> None:
    first, second, _ = ET.fromstring(junit.attempts(TWO_CASES)).iter("testcase")

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
    first, _ = ET.fromstring(junit.attempts(report)).iter("testcase")
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
    (suite,) = ET.fromstring(junit.attempts(report))
    assert suite.findtext("system-out") == "left out 1 execution; see report.json"
    assert suite.attrib["tests"] == "5000"


def test_a_real_reader_reads_both(tmp_path: Path) -> None:
    for name, document in (
        ("attempts.xml", junit.attempts(TWO_CASES)),
        ("junit.xml", junit.render(TWO_CASES, form=JunitForm.REQUESTS)),
    ):
        (tmp_path / name).write_text(document)
        read = JUnitXml.fromfile(str(tmp_path / name))
        (suite,) = read
        expected = [(case, name) for case, name, _ in bktec(document)]
        assert [(case.classname, case.name) for case in suite] == expected
        counts = [len([case for case in suite if case.is_failure]), len(list(suite))]
        assert [suite.failures, suite.tests] == counts

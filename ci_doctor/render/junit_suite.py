# SPDX-License-Identifier: Apache-2.0
"""Pure. Results -> a JUnit document in the dialect that all readers know.

`testsuites` at the root, one `testsuite`, no nesting, one `failure`, `error` or `skipped` child of a
test case at most: bktec (internal/runner/junit_xml.go), the plugin junit-annotate, GitLab
(https://docs.gitlab.com/ci/testing/unit_test_reports/) and Jenkins read it.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, assert_never
from xml.etree import ElementTree as ET

from ci_doctor.model.outcome import Case, CaseOutcome
from ci_doctor.model.report import Report
from ci_doctor.render.formatting import amount
from ci_doctor.render.safe_text import one_line

MOST_RESULTS = 5000  # of one upload: https://buildkite.com/docs/test-engine/importing-junit-xml
FAILURES = frozenset({CaseOutcome.FAILED, CaseOutcome.ERROR})
_DETAIL_CHARACTERS = 20_000
_UNNAMED = "unnamed"


class JunitResult(NamedTuple):
    """One test case; `kind` is the type of a failure, `note` its `system-out`."""

    classname: str
    name: str
    outcome: CaseOutcome
    duration_s: float
    message: str = ""
    kind: str = ""
    detail: str = ""
    file: str | None = None
    line: int | None = None
    note: str = ""


_Result = TypeVar("_Result", JunitResult, Case)


def document(report: Report, results: Sequence[JunitResult], note: str = "") -> str:
    """One JUnit file of `results`, with true counts; `note` is about all of them."""
    root = ET.Element("testsuites")
    suite = _suite(report, results)
    if note:
        ET.SubElement(suite, "system-out").text = note
    root.append(suite)
    # For people who open the file; readers do not need it.
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    # ElementTree writes no declaration of its own to a str; without one, readers have to guess.
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def classname(report: Report) -> str:
    """What the report's own test cases belong to, and what its suite is called."""
    return f"ci-doctor.{report.command}"


def case_result(case: Case, note: str = "") -> JunitResult:
    """`case` as one test case, whatever attempts it had."""
    return JunitResult(
        classname=case.group,
        name=case.name,
        outcome=case.outcome,
        duration_s=case.duration_s or 0.0,
        message=case.message or "",
        kind=case.outcome,
        detail=case.detail or "",
        note=note,
    )


def kept_results(groups: Sequence[Sequence[_Result]], most: int) -> list[_Result]:
    """At most `most` results or cases in their order; a group of them is kept whole or left out.

    Groups with a failure are kept first, then earlier ones.
    """
    room = most
    chosen = set()
    # The sort is stable: of two that failed the earlier one is kept.
    order = sorted(range(len(groups)), key=lambda index: not _has_failed(groups[index]))
    for index in order:
        if len(groups[index]) <= room:
            room -= len(groups[index])
            chosen.add(index)
    results: list[_Result] = []
    for index in sorted(chosen):
        results += groups[index]
    return results


def _has_failed(group: Sequence[JunitResult] | Sequence[Case]) -> bool:
    return any(result.outcome in FAILURES for result in group)


def _suite(report: Report, results: Sequence[JunitResult]) -> ET.Element:
    outcomes = [result.outcome for result in results]
    suite = ET.Element(
        "testsuite",
        name=one_line(classname(report)),
        tests=str(len(results)),
        failures=str(outcomes.count(CaseOutcome.FAILED)),
        errors=str(outcomes.count(CaseOutcome.ERROR)),
        skipped=str(outcomes.count(CaseOutcome.SKIPPED)),
        time=f"{report.duration_s:.3f}",
        timestamp=report.started_at,
    )
    for result in results:
        suite.append(_testcase(result))
    return suite


def _testcase(result: JunitResult) -> ET.Element:
    attributes = {
        # Test Engine takes in no test case without both.
        "classname": one_line(result.classname) or _UNNAMED,
        "name": one_line(result.name) or _UNNAMED,
        "time": f"{result.duration_s:.3f}",
    }
    if result.file is not None:
        attributes["file"] = one_line(result.file)
    if result.line is not None:
        attributes["line"] = str(result.line)
    element = ET.Element("testcase", attributes)
    # A test case without a child has passed.
    tag = _tag(result.outcome)
    if tag:
        message = one_line(result.message)
        kind = one_line(result.kind)
        child = ET.SubElement(element, tag, {"message": message, "type": kind})
        child.text = _shortened(result.detail or result.message)
    if result.note:
        ET.SubElement(element, "system-out").text = result.note
    return element


def _tag(outcome: CaseOutcome) -> str | None:
    match outcome:
        case CaseOutcome.PASSED:
            return None
        case CaseOutcome.FAILED:
            return "failure"
        case CaseOutcome.ERROR:
            return "error"
        case CaseOutcome.SKIPPED:
            return "skipped"
        case _ as never:
            assert_never(never)


def _shortened(text: str) -> str:
    missing = len(text) - _DETAIL_CHARACTERS
    if missing <= 0:
        return text
    beginning = text[:_DETAIL_CHARACTERS]
    return f"{beginning}\n… {amount(missing, 'character')} more in report.json"

# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> JUnit XML with final results: readers show what failed and passed later as red.

All executions are in `attempts.xml` (`attempts`), for Buildkite Test Engine: those of one case are test
cases of the same classname and name, in their order, by which it sees what passed on retry. Readers that
list each failed test case must not get that file, so that no file name of theirs (`junit-*.xml`) matches.
https://buildkite.com/docs/test-engine/importing-junit-xml
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import assert_never
from xml.etree import ElementTree as ET

from msgspec.structs import replace

from ci_doctor.model.outcome import Attempt, Case, CaseOutcome, Report, Verdict
from ci_doctor.render.formatting import amount, cleaned, errors, headline, one_line, place
from ci_doctor.render.layout import table_lines

MOST_RESULTS = 5000  # of one upload: https://buildkite.com/docs/test-engine/importing-junit-xml
FAILURES = frozenset({CaseOutcome.FAILED, CaseOutcome.ERROR})
_DETAIL_CHARACTERS = 20_000
_UNNAMED = "unnamed"


JunitResult = tuple[Case, str]  # a test case, and its `system-out`
# The element of a test case that has not passed.
_TAGS = {
    CaseOutcome.FAILED: "failure",
    CaseOutcome.ERROR: "error",
    CaseOutcome.SKIPPED: "skipped",
}


def _document(report: Report, results: Iterable[ET.Element], note: str = "") -> str:
    """One JUnit file of test cases, with true counts; `note` is about all of them."""
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=one_line(_classname(report)))
    suite.extend(results)
    counts = {tag: len(suite.findall(f"testcase/{tag}")) for tag in _TAGS.values()}
    suite.attrib |= {
        "tests": str(len(suite)),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": f"{report.duration_s:.3f}",
        "timestamp": report.started_at,
    }
    if note:
        ET.SubElement(suite, "system-out").text = note
    # For people who open the file; readers do not need it.
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    # ElementTree writes no declaration of its own to a str; without one, readers have to guess.
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _classname(report: Report) -> str:
    """What the report's own test cases belong to, and what its suite is called."""
    return f"ci-doctor.{report.command}"


def _testcase(case: Case, note: str = "", kind: str = "", **place: str) -> ET.Element:
    """`case` as one test case, whatever attempts it had.

    kind: the type of a failure, if that is not how it ended. note: its `system-out`.
    """
    attributes = {
        # Test Engine takes in no test case without both.
        "classname": one_line(case.group) or _UNNAMED,
        "name": one_line(case.name) or _UNNAMED,
        "time": f"{case.duration_s or 0.0:.3f}",
    }
    element = ET.Element("testcase", attributes | place)
    # A test case without a child has passed.
    if case.outcome in _TAGS:
        message = one_line(case.message or "")
        about = {"message": message, "type": one_line(kind or case.kind or case.outcome)}
        child = ET.SubElement(element, _TAGS[case.outcome], about)
        child.text = _shortened(case.detail or case.message or "")
    if note:
        ET.SubElement(element, "system-out").text = note
    return element


def kept_results(groups: Sequence[Sequence[JunitResult]], most: int) -> list[JunitResult]:
    """At most `most` results in their order; a group of them is kept whole or left out.

    Groups with a failure are kept first, then earlier ones.
    """
    room = most
    chosen = set()
    # The sort is stable: of two that failed the earlier one is kept.
    order = sorted(
        range(len(groups)),
        key=lambda index: not any(case.outcome in FAILURES for case, _ in groups[index]),
    )
    for index in order:
        if len(groups[index]) <= room:
            room -= len(groups[index])
            chosen.add(index)
    return [result for index in sorted(chosen) for result in groups[index]]


def _shortened(text: str) -> str:
    missing = len(text) - _DETAIL_CHARACTERS
    if missing <= 0:
        return text
    return f"{text[:_DETAIL_CHARACTERS]}\n… {amount(missing, 'character')} more in report.json"


_TEXT_WIDTH = 100  # readers show details in a fixed-width font


class JunitForm(StrEnum):
    """What is a test case: the whole command, or each of its requests, services, pins."""

    VERDICT = "verdict"
    REQUESTS = "requests"


def render(report: Report, *, form: JunitForm = JunitForm.VERDICT) -> str:
    """`report` as one JUnit file of at most 5000 results, with true counts.

    By default it has one test case, the verdict: one event is one failure, and its findings are its
    text. With `REQUESTS` the report's cases are the test cases, and the verdict is one only if it has
    not passed and no case is red: the file is all green only if the command succeeds. If there are too
    many, failures are kept first and the suite's `system-out` counts what was left out.
    """
    cases = report.cases if form is JunitForm.REQUESTS else ()
    # One place is the verdict's. Before they are cleaned: there may be a hundred thousand.
    shown = kept_results([[(case, "")] for case in cases], MOST_RESULTS - 1)
    report = cleaned(replace(report, cases=tuple(case for case, _ in shown)))
    results = [_testcase(case) for case in report.cases]
    is_red = any(case.outcome in FAILURES for case in report.cases)
    note = "\n".join(_notes(report, len(cases), len(results)))
    if not results or not (is_red or _outcome(report) is CaseOutcome.PASSED):
        measured_s = sum(case.duration_s or 0.0 for case in report.cases)
        results.insert(0, _verdict(report, note, measured_s=measured_s))
        note = ""
    return _document(report, results, note)


def _notes(report: Report, results: int, kept: int) -> Iterator[str]:
    # A test case that passed has no message: here is the only place left for it.
    if report.verdict is Verdict.FLAKY and not report.exit_code:
        yield f"flaky: {report.summary}"
    missing = results - kept
    if missing:
        yield f"left out {amount(missing, 'result')} of {results}; see report.json"


def _verdict(report: Report, note: str, *, measured_s: float) -> ET.Element:
    """The verdict as a test case; `measured_s` is the time of the other ones."""
    head = headline(report)
    word = "NOT JUDGED" if errors(report) else "NOTHING JUDGED"
    if head is not None:
        word = head.word
    sentence = report.summary if report.error is None else report.error.message
    case = Case(
        group=_classname(report),
        name="verdict",
        outcome=_outcome(report),
        # Readers add up the times of the test cases: the sum is the command's own time. Cases that
        # ran beside each other add up to more than the command took.
        duration_s=max(0.0, report.duration_s - measured_s),
        message=f"{word}: {sentence}",
        detail="\n".join(_explanation(report)),
    )
    return _testcase(case, note, word.lower(), **_place(report))


def _place(report: Report) -> dict[str, str]:
    """A test case has one place: the first that an error is about."""
    for finding in errors(report):
        for evidence in finding.evidence:
            if evidence.file:
                line = {} if evidence.line is None else {"line": str(evidence.line)}
                return {"file": one_line(evidence.file), **line}
    return {}


def _outcome(report: Report) -> CaseOutcome:
    """How the verdict's own test case ends; `flaky` fails if the command does (--fail-on-flaky)."""
    match report.verdict:
        case Verdict.PASS | Verdict.FLAKY:
            return CaseOutcome.FAILED if report.exit_code else CaseOutcome.PASSED
        case Verdict.REGRESSION | Verdict.FAILED:
            return CaseOutcome.FAILED
        case None if report.error is None:
            # Nothing was judged, and what was found is a failure all the same: a diagnosis.
            return CaseOutcome.FAILED if errors(report) else CaseOutcome.SKIPPED
        case Verdict.INFRA | Verdict.NONDETERMINISTIC | Verdict.INCONCLUSIVE | Verdict.VOID | None:
            return CaseOutcome.ERROR
        case _ as never:
            assert_never(never)


def _explanation(report: Report) -> Iterator[str]:
    error = report.error
    if error is not None:
        yield from filter(None, [error.message, error.hint and f"hint: {error.hint}", error.detail])
    if report.summary and (error is None or report.summary != error.message):
        yield report.summary
    for finding in errors(report):
        yield f"\n{finding.rule}: {finding.summary}"
        for evidence in finding.evidence:
            yield from filter(None, [place(evidence), evidence.excerpt])
        if finding.remedy:
            yield f"try: {finding.remedy}"
    for table in report.tables:
        yield f"\n{table.title}"
        yield from table_lines(table, _TEXT_WIDTH)
    if report.reproduce:
        yield f"\nreproduce: {report.reproduce}"


def attempts(report: Report) -> str:
    """`report` as one JUnit file of at most 5000 executions.

    The report's own attempts (the starts of a service) belong to `ci-doctor.<command>.attempts`.
    A case is left out whole, cases that never failed first; the suite's `system-out` counts them.
    """
    report = cleaned(report)
    groups = [[_start(attempt, report)] for attempt in report.attempts]
    groups += [_executions(case) for case in report.cases]
    results = kept_results(groups, MOST_RESULTS)
    missing = sum(map(len, groups)) - len(results)
    note = f"left out {amount(missing, 'execution')}; see report.json" if missing else ""
    return _document(report, [_testcase(*result) for result in results], note)


def _start(attempt: Attempt, report: Report) -> JunitResult:
    case = Case(
        group=f"{_classname(report)}.attempts",
        name=attempt.name,
        outcome=CaseOutcome.PASSED if attempt.ok else CaseOutcome.ERROR,
        duration_s=attempt.duration_s,
        message=attempt.outcome,
    )
    return case, f"log: {attempt.log}" if attempt.log else ""


def _executions(case: Case) -> list[JunitResult]:
    """Each execution of `case`; the case itself if there was one."""
    results = []
    for number, attempt in enumerate(case.attempts, start=1):
        job = f", job {attempt.job}" if attempt.job else ""
        execution = replace(
            case,
            outcome=attempt.outcome,
            message=attempt.message,
            detail=attempt.detail,
            duration_s=attempt.duration_s,
        )
        results.append((execution, f"attempt {number} of {len(case.attempts)}{job}"))
    return results or [(case, "")]

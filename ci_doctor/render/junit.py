# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> JUnit XML with final results: readers show what failed and passed later as red.

All executions are in `attempts.xml` (`attempts`), for Buildkite Test Engine: those of one case are test
cases of the same classname and name, in their order, by which it sees what passed on retry. Readers that
list each failed test case must not get that file, so that no file name of theirs (`junit-*.xml`) matches.
https://buildkite.com/docs/test-engine/importing-junit-xml
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar, assert_never
from xml.etree import ElementTree as ET

from msgspec.structs import replace

from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Attempt, Case, CaseOutcome, Failure, Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount, place
from ci_doctor.render.headline import errors, headline
from ci_doctor.render.layout import table_lines
from ci_doctor.render.safe_text import cleaned, one_line

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
    order = sorted(
        range(len(groups)),
        key=lambda index: not any(result.outcome in FAILURES for result in groups[index]),
    )
    for index in order:
        if len(groups[index]) <= room:
            room -= len(groups[index])
            chosen.add(index)
    results: list[_Result] = []
    for index in sorted(chosen):
        results += groups[index]
    return results


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


_TEXT_WIDTH = 100  # readers show details in a fixed-width font


class JunitForm(StrEnum):
    """What is a test case: the whole command, or each of its requests, services, pins."""

    VERDICT = "verdict"
    REQUESTS = "requests"


def render(report: Report, *, form: JunitForm = JunitForm.VERDICT) -> str:
    """`report` as one JUnit file of at most 5000 results, with true counts.

    By default it has one test case, the verdict: one event is one failure, and its findings are its
    text. With `REQUESTS` the report's cases are the test cases, and the verdict is one only if no
    case is red: the file is all green only if the command succeeds. If there are too many, failures
    are kept first and the verdict's `system-out` counts what was left out.
    """
    cases = report.cases if form is JunitForm.REQUESTS else ()
    # One place is the verdict's. Before they are cleaned: there may be a hundred thousand.
    shown = kept_results([[case] for case in cases], MOST_RESULTS - 1)
    report = cleaned(replace(report, cases=tuple(shown)))
    kept = [case_result(case) for case in report.cases]
    is_red = any(result.outcome in FAILURES for result in kept)
    if not is_red or len(kept) < len(cases):
        note = "\n".join(_notes(report, len(cases), len(kept)))
        verdict = _verdict(report, note, measured_s=_total_s(kept))
        kept.insert(0, verdict)
    return document(report, kept)


def _total_s(results: list[JunitResult]) -> float:
    return sum(result.duration_s for result in results)


def _notes(report: Report, results: int, kept: int) -> Iterator[str]:
    # A test case that passed has no message: here is the only place left for it.
    if report.verdict is Verdict.FLAKY and not report.exit_code:
        yield f"flaky: {report.summary}"
    missing = results - kept
    if missing:
        yield f"left out {amount(missing, 'result')} of {results}; see report.json"


def _verdict(report: Report, note: str, *, measured_s: float) -> JunitResult:
    """The verdict as a test case; `measured_s` is the time of the other ones."""
    head = headline(report)
    word = "NOT JUDGED" if errors(report) else "NOTHING JUDGED"
    if head is not None:
        word = head.word
    sentence = report.summary
    if report.error is not None:
        sentence = report.error.message
    file, line = _place_of(errors(report))
    return JunitResult(
        classname=classname(report),
        name="verdict",
        outcome=_outcome(report),
        # Readers add up the times of the test cases: the sum is the command's own time. Cases that
        # ran beside each other add up to more than the command took.
        duration_s=max(0.0, report.duration_s - measured_s),
        message=f"{word}: {sentence}",
        kind=word.lower(),
        detail="\n".join(_explanation(report)),
        file=file,
        line=line,
        note=note,
    )


def _place_of(findings: Iterable[Finding]) -> tuple[str | None, int | None]:
    """A test case has one place: the first that a finding is about."""
    for finding in findings:
        for evidence in finding.evidence:
            if evidence.file:
                return evidence.file, evidence.line
    return None, None


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
        yield from _error(error)
    if report.summary and (error is None or report.summary != error.message):
        yield report.summary
    for finding in errors(report):
        yield from _finding(finding)
    for table in report.tables:
        yield f"\n{table.title}"
        yield from table_lines(table, _TEXT_WIDTH)
    if report.reproduce:
        yield f"\nreproduce: {report.reproduce}"


def _error(error: Failure) -> Iterator[str]:
    yield error.message
    if error.hint:
        yield f"hint: {error.hint}"
    if error.detail:
        yield error.detail


def _finding(finding: Finding) -> Iterator[str]:
    """A finding as lines of the verdict's text."""
    yield f"\n{finding.rule}: {finding.summary}"
    for evidence in finding.evidence:
        yield from filter(None, [place(evidence), evidence.excerpt])
    if finding.remedy:
        yield f"try: {finding.remedy}"


def attempts(report: Report) -> str:
    """`report` as one JUnit file of at most 5000 executions.

    The report's own attempts (the starts of a service) belong to `ci-doctor.<command>.attempts`.
    A case is left out whole, cases that never failed first; the suite's `system-out` counts them.
    """
    report = cleaned(report)
    group_of_starts = f"{classname(report)}.attempts"
    groups = [[_start(attempt, group_of_starts)] for attempt in report.attempts]
    groups += [_executions(case) for case in report.cases]
    results = kept_results(groups, MOST_RESULTS)
    missing = sum(map(len, groups)) - len(results)
    note = ""
    if missing:
        note = f"left out {amount(missing, 'execution')}; see report.json"
    return document(report, results, note)


def _start(attempt: Attempt, group: str) -> JunitResult:
    outcome = CaseOutcome.PASSED if attempt.ok else CaseOutcome.ERROR
    note = f"log: {attempt.log}" if attempt.log else ""
    return JunitResult(
        classname=group,
        name=attempt.name,
        outcome=outcome,
        duration_s=attempt.duration_s,
        message=attempt.outcome,
        kind=outcome,
        note=note,
    )


def _executions(case: Case) -> list[JunitResult]:
    """Each execution of `case`; the case itself if there was one."""
    if not case.attempts:
        return [case_result(case)]
    results = []
    for number, attempt in enumerate(case.attempts, start=1):
        note = f"attempt {number} of {len(case.attempts)}"
        if attempt.job:
            note += f", job {attempt.job}"
        execution = replace(
            case,
            outcome=attempt.outcome,
            message=attempt.message,
            detail=attempt.detail,
            duration_s=attempt.duration_s,
        )
        results.append(case_result(execution, note))
    return results

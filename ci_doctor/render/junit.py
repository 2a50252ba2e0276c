# SPDX-License-Identifier: Apache-2.0
"""Report -> JUnit XML, in the dialect that Buildkite Test Engine, bktec and the junit-annotate plugin all read.

`testsuites` at the root, one `testsuite`, no nesting, one `failure`, `error` or `skipped` child at most.
"""

from typing import NamedTuple, assert_never
from xml.etree import ElementTree as ET

from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Case, CaseOutcome
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.figures import amount, place
from ci_doctor.render.headline import errors, headline
from ci_doctor.render.safe_text import cleaned, one_line
from ci_doctor.render.table_layout import table_lines

_TEXT_WIDTH = 100
MOST_RESULTS = 5000  # of one upload: https://buildkite.com/docs/test-engine/importing-junit-xml
_DETAIL_CHARACTERS = 20_000


class _Result(NamedTuple):
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


def render(report: Report) -> str:
    """`report` as one JUnit file of at most 5000 results, with true counts.

    The first test case is the verdict, so that the file is all green only where the command succeeds; then the report's cases,
    then each finding of severity error. Where there are too many, failures are kept first and the verdict's
    `system-out` says what was left out.
    """
    report = cleaned(report)
    results = [_case(case) for case in report.cases] + _findings(report)
    kept = _kept(results, MOST_RESULTS - 1)
    verdict = _verdict(report)
    if len(kept) < len(results):
        left_out = f"left out {amount(len(results) - len(kept), 'result')} of {len(results)}; see report.json"
        verdict = verdict._replace(note="\n".join(filter(None, [verdict.note, left_out])))
    root = ET.Element("testsuites")
    root.append(_suite(report, [verdict, *kept]))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _verdict(report: Report) -> _Result:
    outcome = _outcome(report)
    head = headline(report)
    word = head.word if head is not None else "NOTHING JUDGED"
    measured = sum(case.duration_s or 0.0 for case in report.cases)
    return _Result(
        classname=_classname(report),
        name="verdict",
        outcome=outcome,
        duration_s=max(0.0, report.duration_s - measured),
        message=f"{word}: {report.error.message if report.error else report.summary}",
        kind=word.lower(),
        detail=_explanation(report),
        note=f"flaky: {report.summary}"
        if outcome is CaseOutcome.PASSED and report.verdict is Verdict.FLAKY
        else "",
    )


def _outcome(report: Report) -> CaseOutcome:
    """How the verdict's own test case ends; `flaky` fails where the command does (--fail-on-flaky)."""
    match report.verdict:
        case Verdict.PASS | Verdict.FLAKY:
            return CaseOutcome.FAILED if report.exit_code else CaseOutcome.PASSED
        case Verdict.REGRESSION | Verdict.FAILED:
            return CaseOutcome.FAILED
        case None if report.error is None:
            return CaseOutcome.SKIPPED
        case Verdict.INFRA | Verdict.NONDETERMINISTIC | Verdict.INCONCLUSIVE | Verdict.VOID | None:
            return CaseOutcome.ERROR
        case _ as never:
            assert_never(never)


def _explanation(report: Report) -> str:
    lines = []
    if report.error:
        lines += [
            report.error.message,
            f"hint: {report.error.hint}" if report.error.hint else "",
            report.error.detail or "",
        ]
    if not report.error or report.summary != report.error.message:
        lines.append(report.summary)
    for table in report.tables:
        lines += [f"\n{table.title}", *table_lines(table, _TEXT_WIDTH)]
    if report.reproduce:
        lines.append(f"\nreproduce: {report.reproduce}")
    return "\n".join(filter(None, lines))


def _case(case: Case) -> _Result:
    return _Result(
        classname=case.group,
        name=case.name,
        outcome=case.outcome,
        duration_s=case.duration_s or 0.0,
        message=case.message or "",
        kind=case.outcome,
        detail=case.detail or "",
    )


def _findings(report: Report) -> list[_Result]:
    """One failed result for each error; the second and later of one rule are numbered, so that each has its own name."""
    seen: dict[str, int] = {}
    results = []
    for finding in errors(report):
        seen[finding.rule] = seen.get(finding.rule, 0) + 1
        number = f" ({seen[finding.rule]})" if seen[finding.rule] > 1 else ""
        results.append(_finding(finding, _classname(report), f"finding {finding.rule}{number}"))
    return results


def _finding(finding: Finding, classname: str, name: str) -> _Result:
    source = next((evidence for evidence in finding.evidence if evidence.file), None)
    lines = [finding.summary]
    for evidence in finding.evidence:
        lines += ["", *filter(None, [place(evidence), evidence.excerpt])]
    if finding.remedy:
        lines += ["", f"try: {finding.remedy}"]
    return _Result(
        classname=classname,
        name=name,
        outcome=CaseOutcome.FAILED,
        duration_s=0.0,
        message=finding.summary,
        kind=finding.rule,
        detail="\n".join(lines),
        file=source.file if source else None,
        line=source.line if source else None,
    )


def _classname(report: Report) -> str:
    return f"ci-doctor.{report.command}"


def _kept(results: list[_Result], most: int) -> list[_Result]:
    """At most `most` of `results`, in their order: the failed ones before the others, the earlier before the later."""
    failed = {CaseOutcome.FAILED, CaseOutcome.ERROR}
    ranked = sorted(
        range(len(results)), key=lambda index: (results[index].outcome not in failed, index)
    )
    return [results[index] for index in sorted(ranked[:most])]


def _suite(report: Report, results: list[_Result]) -> ET.Element:
    outcomes = [result.outcome for result in results]
    suite = ET.Element(
        "testsuite",
        name=one_line(_classname(report)),
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


def _testcase(result: _Result) -> ET.Element:
    attributes = {
        "classname": one_line(result.classname),
        "name": one_line(result.name),
        "time": f"{result.duration_s:.3f}",
    }
    if result.file is not None:
        attributes["file"] = one_line(result.file)
    if result.line is not None:
        attributes["line"] = str(result.line)
    element = ET.Element("testcase", attributes)
    tag = _tag(result.outcome)
    if tag:
        child = ET.SubElement(
            element, tag, message=one_line(result.message), type=one_line(result.kind)
        )
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
    if len(text) <= _DETAIL_CHARACTERS:
        return text
    return f"{text[:_DETAIL_CHARACTERS]}\n… {amount(len(text) - _DETAIL_CHARACTERS, 'character')} more in report.json"

# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> JUnit XML with every execution of each case, for Buildkite Test Engine.

Executions of one case are test cases of the same classname and name, in their order: Test Engine
sees by them what passed on retry. Readers that list each failed test case must not get this file,
so that no file name of theirs (`junit-*.xml`) matches it.
https://buildkite.com/docs/test-engine/importing-junit-xml
"""

from msgspec.structs import replace

from ci_doctor.model.outcome import Attempt, Case, CaseOutcome, Report
from ci_doctor.render.formatting import amount
from ci_doctor.render.junit import (
    MOST_RESULTS,
    JunitResult,
    case_result,
    classname,
    document,
    kept_results,
)
from ci_doctor.render.safe_text import cleaned


def render(report: Report) -> str:
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

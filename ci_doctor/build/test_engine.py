# SPDX-License-Identifier: Apache-2.0
"""Pure. Test cases as results for Buildkite Test Engine: an execution for each of their attempts.

The format: https://buildkite.com/docs/test-engine/importing-json
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from ci_doctor.build.engine_tags import tags_of
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, StepFacts
from ci_doctor.model.moment import parse_moment
from ci_doctor.model.outcome import Case, CaseAttempt, CaseOutcome
from ci_doctor.model.report import Report
from ci_doctor.render.safe_text import one_line, printable

_CHARACTERS = 1000  # of a name, a reason, a line
_LINES = 100
# Test Engine has one word for all that failed.
_RESULTS = {
    CaseOutcome.PASSED: "passed",
    CaseOutcome.FAILED: "failed",
    CaseOutcome.ERROR: "failed",
    CaseOutcome.SKIPPED: "skipped",
}
Execution = dict[str, Any]


def executions(report: Report) -> Iterator[Execution]:
    """A result for each attempt of each case of `report`, that of a merged build.

    Scope and name, which identify a test, are the case's group and name. What Test Engine requires
    and nobody knows is 0: a duration; the time of the report's start stands for that of a case.
    Raises msgspec.ValidationError for the report of another command.
    """
    facts = msgspec.convert(report.facts, BuildFacts)
    steps = {job.job: (step, job) for step in facts.build_steps for job in step.attempts}
    causes = {each.fingerprint: each for each in facts.causes}
    for case in report.cases:
        for number, attempt in enumerate(_attempts(case)):
            step, job = steps.get(attempt.job, (None, None))
            cause = causes.get(job.cause) if job is not None and job.cause else None
            tags = _tags(step, job, cause, number)
            yield _execution(case, attempt, number, report=report, tags=tags)


def _attempts(case: Case) -> Sequence[CaseAttempt]:
    if case.attempts:
        return case.attempts
    only = CaseAttempt(
        outcome=case.outcome,
        message=case.message,
        detail=case.detail,
        duration_s=case.duration_s,
    )
    return (only,)


def _execution(
    case: Case, attempt: CaseAttempt, number: int, *, report: Report, tags: Mapping[str, str]
) -> Execution:
    started = parse_moment(attempt.started_at)
    start = started if started is not None else parse_moment(report.started_at) or 0.0
    duration = max(attempt.duration_s or 0.0, 0.0)
    # The same for the same execution, however often it is uploaded.
    words = (report.about.build_url, attempt.job, case.group, case.name, attempt.started_at, number)
    result = {
        "id": str(uuid5(NAMESPACE_URL, repr(words))),
        "scope": _line(case.group),
        "name": _line(case.name) or "unnamed",
        "result": _RESULTS[attempt.outcome],
        "history": {
            "section": "top",
            "start_at": start,
            "end_at": start + duration,
            "duration": duration,
        },
        "tags": dict(tags),
    }
    if _RESULTS[attempt.outcome] == "failed":
        result |= _failure(attempt)
    return result


def _failure(attempt: CaseAttempt) -> Execution:
    reason = _line(attempt.message or "") or str(attempt.outcome)
    if not attempt.detail:
        return {"failure_reason": reason}
    lines = printable(attempt.detail).splitlines()
    shown = [line[:_CHARACTERS] for line in lines[:_LINES]]
    if len(lines) > _LINES:
        shown.append(f"… {len(lines) - _LINES} more lines")
    return {"failure_reason": reason, "failure_expanded": [{"expanded": shown, "backtrace": []}]}


def _line(text: str) -> str:
    # Cut before, too: it may be a megabyte.
    return one_line(printable(text[: _CHARACTERS * 4]))[:_CHARACTERS]


def _tags(
    step: StepFacts | None, job: JobFacts | None, cause: CauseFacts | None, number: int
) -> dict[str, str]:
    values: dict[str, object] = {"ci_doctor.execution": number + 1}
    if step is not None:
        values["ci_doctor.step"] = step.name
    if job is not None:
        values |= {
            "ci_doctor.verdict": job.verdict,
            "ci_doctor.attempt": job.attempt + 1,
            "ci_doctor.retry": job.retry,
            "build.job_id": job.job,
        }
    if cause is not None:
        values |= {
            "ci_doctor.cause": cause.title,
            "ci_doctor.cause_id": cause.fingerprint,
            "ci_doctor.cause_class": cause.class_,
        }
    return tags_of(values)

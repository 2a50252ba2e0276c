# SPDX-License-Identifier: Apache-2.0
"""Pure. A merged build -> test cases: one a step, and those of the last attempts' reports."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from ci_doctor.build.job_attempt import JobAttempt
from ci_doctor.build.merge import MergedBuild
from ci_doctor.build.steps import BuildStep
from ci_doctor.build.times import duration_s, in_utc
from ci_doctor.build.verdicts import case_outcome
from ci_doctor.build.wording import clipped
from ci_doctor.model.outcome import Case, CaseAttempt, CaseOutcome

GROUP: Final = "ci-doctor.build"
# Below the 5,000 results of one upload.
MOST_CASES: Final = 4_000
_RED: Final = frozenset({CaseOutcome.FAILED, CaseOutcome.ERROR})
_LONGEST: Final = 20_000


def cases_of(merged: MergedBuild) -> tuple[Case, ...]:
    """A case a step and a missing report; then the steps' own cases, red ones before all others.

    There are 4,000 of them at most; those of steps come first.
    """
    cases = [_of_step(step) for step in merged.steps]
    cases += [_of_missing(each.name, each.reason) for each in merged.missing if each.is_expected]
    own = [case for step in merged.steps for case in _own(step)]
    own.sort(key=lambda case: case.outcome not in _RED)
    return tuple([*cases, *own][:MOST_CASES])


def _of_missing(name: str, reason: str) -> Case:
    return Case(group=f"{GROUP}.expected", name=name, outcome=CaseOutcome.ERROR, message=reason)


def _of_step(step: BuildStep) -> Case:
    attempts = [_attempt(each) for each in step.attempts]
    last = min(step.last, key=lambda each: case_outcome(each.facts.verdict) is CaseOutcome.PASSED)
    final = _attempt(last)
    return Case(
        group=GROUP,
        name=step.name,
        outcome=final.outcome,
        message=final.message,
        detail=final.detail,
        duration_s=final.duration_s,
        attempts=tuple(attempts) if len(attempts) > 1 else (),
    )


def _attempt(attempt: JobAttempt) -> CaseAttempt:
    facts = attempt.facts
    outcome = case_outcome(facts.verdict)
    is_red = outcome in _RED
    detail = attempt.cause.text if attempt.cause is not None else None
    return CaseAttempt(
        outcome=outcome,
        message=clipped(f"{facts.verdict}: {facts.summary}") if is_red else None,
        detail=clipped(detail) if is_red and detail else None,
        duration_s=duration_s(facts),
        started_at=facts.began_at,
        job=facts.job,
    )


def _own(step: BuildStep) -> Iterator[Case]:
    """The cases of the last attempt, each with its executions in all attempts."""
    executions: dict[tuple[str, str], list[CaseAttempt]] = defaultdict(list)
    final: dict[tuple[str, str], Case] = {}
    last = step.last
    for attempt in step.attempts:
        for case, started_at in _cases(attempt):
            name = (case.group, case.name)
            executions[name] += _executions(case, started_at, attempt.facts.job)
            if attempt in last:
                final[name] = case
    for name, case in final.items():
        yield _with_step(case, step.name, executions[name])


def _cases(attempt: JobAttempt) -> Iterator[tuple[Case, str | None]]:
    for file in attempt.reports:
        for case in file.report.cases:
            yield case, in_utc(file.report.started_at)


def _executions(case: Case, started_at: str | None, job: str | None) -> list[CaseAttempt]:
    if not case.attempts:
        return [
            CaseAttempt(
                outcome=case.outcome,
                message=_cut(case.message),
                detail=_cut(case.detail),
                duration_s=case.duration_s,
                started_at=started_at,
                job=job,
            )
        ]
    return [
        CaseAttempt(
            outcome=each.outcome,
            message=_cut(each.message),
            detail=_cut(each.detail),
            duration_s=each.duration_s,
            started_at=each.started_at or started_at,
            job=each.job or job,
        )
        for each in case.attempts
    ]


def _with_step(case: Case, step: str, executions: Sequence[CaseAttempt]) -> Case:
    return Case(
        group=f"{step}.{case.group}",
        name=case.name,
        outcome=case.outcome,
        message=_cut(case.message),
        detail=_cut(case.detail),
        duration_s=case.duration_s,
        attempts=tuple(executions) if len(executions) > 1 else (),
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else clipped(text, _LONGEST)

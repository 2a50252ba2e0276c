# SPDX-License-Identifier: Apache-2.0
"""Pure. A merged build -> the outcome of `ci-doctor build merge`."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from ci_doctor.build import findings as rules
from ci_doctor.build.api_jobs import duration_s, in_utc
from ci_doctor.build.findings import CAUSE, findings_of
from ci_doctor.build.job_attempt import JobAttempt, case_outcome, verdict_of_build
from ci_doctor.build.merge import (
    LONGEST_FIELD,
    BuildStep,
    MergedBuild,
    amount,
    attempt_id,
    cause_id,
    clipped,
    listed,
    worths_of_retries,
)
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.outcome import (
    Case,
    CaseAttempt,
    CaseOutcome,
    Finding,
    Outcome,
    Table,
    Verdict,
    is_green,
    ordered,
    rank,
    row,
)
from ci_doctor.model.words import parse_moment
from ci_doctor.render.build_annotation import counted, step_ending

# --- a merged build -> its facts ---


def facts_of(merged: MergedBuild) -> BuildFacts:
    """Steps worst first, causes most urgent first, and texts of a length that can be shown."""
    about = merged.about
    unordered = [_step(step) for step in merged.steps]
    steps = tuple(sorted(unordered, key=lambda step: (rank(step_ending(step)), step.name)))
    jobs = [job for step in steps for job in step.attempts]
    twice = [step.name for step in merged.steps if step.claimed_twice()]
    return BuildFacts(
        pipeline=_field(about.pipeline),
        build=about.build,
        build_url=_field(about.build_url),
        commit=_field(about.commit),
        branch=_field(about.branch),
        began_at=min((job.began_at for job in jobs if job.began_at), key=_second, default=None),
        ended_at=max((job.ended_at for job in jobs if job.ended_at), key=_second, default=None),
        build_steps=steps,
        causes=tuple(cause.facts for cause in merged.causes),
        cause_rule=CAUSE.id,
        missing=tuple(dict.fromkeys(each.name for each in merged.missing)),
        duplicates=tuple(twice),
        knows_queue=merged.knows_queue,
    )


def _second(text: str) -> float:
    return parse_moment(text) or 0.0


def _step(step: BuildStep) -> StepFacts:
    worths = worths_of_retries(step)
    jobs: list[JobFacts] = []
    for attempt in step.attempts:
        job = replace(
            attempt.facts,
            summary=clipped(attempt.facts.summary),
            agent=_field(attempt.facts.agent),
            queue=_field(attempt.facts.queue),
            cause=cause_id(attempt) if attempt.has_failed else None,
            retry=worths.get(attempt_id(attempt)),
        )
        jobs.append(job)
    return StepFacts(
        name=step.name,
        key=_field(step.key),
        label=_field(step.label),
        parallel_index=step.parallel_index,
        verdict=step.verdict,
        attempts=tuple(jobs),
    )


def _field(text: str | None) -> str | None:
    """A text that has one line, and no more than can be shown."""
    return None if text is None else clipped(text, LONGEST_FIELD)


# --- a merged build -> test cases: one a step, and those of the last attempts' reports ---

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
        for file in attempt.reports:
            started_at = in_utc(file.report.started_at)
            for case in file.report.cases:
                name = (case.group, case.name)
                executions[name] += _executions(case, started_at, attempt.facts.job)
                if attempt in last:
                    final[name] = case
    for name, case in final.items():
        yield replace(
            case,
            group=f"{step.name}.{case.group}",
            message=_cut(case.message),
            detail=_cut(case.detail),
            attempts=tuple(executions[name]) if len(executions[name]) > 1 else (),
        )


def _executions(case: Case, started_at: str | None, job: str | None) -> list[CaseAttempt]:
    own = case.attempts or (
        CaseAttempt(
            outcome=case.outcome,
            message=case.message,
            detail=case.detail,
            duration_s=case.duration_s,
        ),
    )
    return [
        replace(
            each,
            message=_cut(each.message),
            detail=_cut(each.detail),
            started_at=each.started_at or started_at,
            job=each.job or job,
        )
        for each in own
    ]


def _cut(text: str | None) -> str | None:
    return None if text is None else clipped(text, _LONGEST)


# --- a merged build -> the outcome of `ci-doctor build merge` ---


def outcome_of(
    merged: MergedBuild, problems: Sequence[str] = (), *, api_problem: str | None = None
) -> Outcome:
    """The worst verdict of the last attempts; `void` or worse if something is missing.

    problems: what kept the artifacts from being read, as sentences. api_problem: what kept
    Buildkite's API from telling the jobs.
    """
    findings = findings_of(merged, problems)
    if api_problem is not None:
        findings = (*findings, rules.API_UNREADABLE.finding(clipped(api_problem)))
    facts = facts_of(merged)
    words = [
        step.verdict
        for step in merged.steps
        if not all(attempt.is_excused for attempt in step.last)
    ]
    if any(finding.rule in rules.GAPS for finding in findings):
        words.append(Verdict.VOID)
    return Outcome(
        verdict=verdict_of_build(words),
        summary=_summary(facts, findings),
        findings=findings,
        tables=(_steps(facts),) if facts.build_steps else (),
        facts=facts,
        cases=cases_of(merged),
    )


def _steps(facts: BuildFacts) -> Table:
    """The steps by their ending, below the findings, which say what to do."""
    by_ending: dict[str, list[str]] = defaultdict(list)
    for step in facts.build_steps:
        by_ending[step_ending(step)].append(step.name)
    rows = [row(word, len(by_ending[word]), listed(by_ending[word])) for word in ordered(by_ending)]
    return Table(title="Steps", rows=tuple(rows), is_aside=True)


def _summary(facts: BuildFacts, findings: Sequence[Finding]) -> str:
    """`6 steps: 2 failed, 4 pass; one cause: a disk is full (2 jobs)`."""
    if not facts.build_steps:
        return "no record and no report of a job was read"
    sentences = [_counts(facts)]
    gaps = sum(finding.rule in rules.GAPS for finding in findings)
    if gaps:
        sentences.append(f"{amount(gaps, 'gap')} in the evidence")
    causes = [cause for cause in facts.causes if not cause.cancelled]
    if causes:
        sentences.append(_first(causes[0], len(causes)))
    hidden = sum(
        any(job.retry is RetryWorth.HID_A_FAILURE for job in step.attempts)
        for step in facts.build_steps
    )
    if hidden:
        sentences.append(f"a retry hid a failure of {amount(hidden, 'step')}")
    return "; ".join(sentences)


def _counts(facts: BuildFacts) -> str:
    count = len(facts.build_steps)
    if all(is_green(step.verdict) for step in facts.build_steps):
        return f"{amount(count, 'step')} passed"
    parts = [f"{number} {word}" for word, number in counted(facts.build_steps)]
    return f"{amount(count, 'step')}: {', '.join(parts)}"


def _first(cause: CauseFacts, count: int) -> str:
    jobs = amount(cause.jobs, "job")
    if count == 1:
        return f"one cause: {cause.title} ({jobs})"
    return f"{count} causes, the first: {cause.title} ({jobs})"

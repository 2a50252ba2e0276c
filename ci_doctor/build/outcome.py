# SPDX-License-Identifier: Apache-2.0
"""Pure. A merged build -> the outcome of `ci-doctor build merge`."""

from collections.abc import Sequence

from ci_doctor.build import rules
from ci_doctor.build.cases import cases_of
from ci_doctor.build.facts import facts_of
from ci_doctor.build.findings import findings_of
from ci_doctor.build.merge import MergedBuild
from ci_doctor.build.tables import tables_of
from ci_doctor.build.verdicts import verdict_of_build
from ci_doctor.build.wording import amount, clipped
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, RetryWorth
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict, is_green
from ci_doctor.render.build_annotation import counted


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
    return Outcome(
        verdict=_verdict(merged, findings),
        summary=_summary(facts, findings),
        findings=findings,
        tables=tables_of(facts),
        facts=facts,
        cases=cases_of(merged),
    )


def _verdict(merged: MergedBuild, findings: Sequence[Finding]) -> Verdict:
    words = [
        step.verdict
        for step in merged.steps
        if not all(attempt.is_excused for attempt in step.last)
    ]
    if any(finding.rule in rules.GAPS for finding in findings):
        words.append(Verdict.VOID)
    return verdict_of_build(words)


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
    hidden = _steps_hidden(facts)
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


def _steps_hidden(facts: BuildFacts) -> int:
    count = 0
    for step in facts.build_steps:
        if any(job.retry is RetryWorth.HID_A_FAILURE for job in step.attempts):
            count += 1
    return count

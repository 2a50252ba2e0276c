# SPDX-License-Identifier: Apache-2.0
"""Pure. What is wrong with a merged build: its causes, its retries, and gaps in what is known."""

from collections.abc import Iterator, Sequence
from typing import Final

from ci_doctor.build import rules
from ci_doctor.build.causes import BuildCause, FailedAttempt
from ci_doctor.build.gaps import gap_findings
from ci_doctor.build.merge import MergedBuild
from ci_doctor.build.retries import lies_outside, worths_of_retries
from ci_doctor.build.steps import BuildStep
from ci_doctor.build.wording import amount, listed, spent
from ci_doctor.model.facts.build import RetryWorth
from ci_doctor.model.finding import Evidence, Finding, Severity

# A build in which everything fails in its own way: the facts and the page have all of them.
_MOST_CAUSES: Final = 30


def findings_of(merged: MergedBuild, problems: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Gaps first, as nothing can be concluded beside them, then causes, then retries.

    problems: what kept the artifacts from being read.
    """
    findings = list(gap_findings(merged, problems))
    shown = merged.causes[:_MOST_CAUSES]
    findings += [_cause_finding(cause) for cause in shown]
    rest = merged.causes[_MOST_CAUSES:]
    if rest:
        findings.append(_rest_finding(rest))
    findings += _retry_findings(merged.steps)
    return tuple(findings)


def _cause_finding(cause: BuildCause) -> Finding:
    facts = cause.facts
    were = "was" if facts.jobs == 1 else "were"
    end = f"{were} cancelled" if facts.cancelled else "failed"
    jobs = amount(facts.jobs, "job")
    summary = f"{facts.title}: {jobs} {end} in {listed(facts.steps)}{spent(facts)}"
    evidence = []
    if facts.text or facts.where:
        evidence.append(Evidence(file=facts.where, excerpt=facts.text))
    return rules.CAUSE.finding(
        summary,
        evidence=tuple(evidence),
        remedy=facts.advice or None,
        severity=_severity([cause]),
    )


def _severity(causes: Sequence[BuildCause]) -> Severity:
    """An error if one of them ended a last attempt that counts, and that nobody cancelled."""
    for cause in causes:
        if any(map(_counts, cause.failed)):
            return Severity.ERROR
    return Severity.WARNING


def _counts(failed: FailedAttempt) -> bool:
    attempt = failed.attempt
    return failed.is_last and not attempt.is_excused and not attempt.facts.cancelled


def _rest_finding(rest: Sequence[BuildCause]) -> Finding:
    jobs = amount(sum(cause.facts.jobs for cause in rest), "job")
    summary = f"{jobs} failed by {amount(len(rest), 'further cause')}: report.json has them"
    return rules.CAUSE.finding(summary, severity=_severity(rest))


def _retry_findings(steps: Sequence[BuildStep]) -> Iterator[Finding]:
    hidden = _steps_with(steps, RetryWorth.HID_A_FAILURE)
    if hidden:
        summary = (
            f"a retry hid a failure of {listed(hidden)}: nothing puts the cause outside the change"
        )
        yield rules.HID_A_FAILURE.finding(summary)
    vain = [step.name for step in steps if _was_retried_in_vain(step)]
    if vain:
        summary = f"a failure that no other run helps was retried: {listed(vain)}"
        yield rules.RETRIED_IN_VAIN.finding(summary)


def _steps_with(steps: Sequence[BuildStep], worth: RetryWorth) -> list[str]:
    return [step.name for step in steps if worth in worths_of_retries(step).values()]


def _was_retried_in_vain(step: BuildStep) -> bool:
    """Whether an attempt with a known cause within the change was retried, and failed again."""
    if RetryWorth.IN_VAIN not in worths_of_retries(step).values():
        return False
    last = step.attempts[-1].facts.attempt
    before = [each for each in step.attempts if each.facts.attempt != last]
    return any(each.cause is not None and not lies_outside(each) for each in before)

# SPDX-License-Identifier: Apache-2.0
"""From the promises to a verdict, its reason and its findings. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.verdict import Verdict
from ci_doctor.restart.judge import was_killed
from ci_doctor.restart.observed import Counts, Observation, Phase, RestartEnding
from ci_doctor.restart.promise import Promise, State, Terms
from ci_doctor.services.findings import finding_of, stop_findings
from ci_doctor.services.outcome import FailureKind


class RestartConclusion(Struct, frozen=True, kw_only=True):
    """The verdict and its reason, one sentence without a full stop."""

    verdict: Verdict
    reason: str


def conclude(seen: Observation, promises: Sequence[Promise], terms: Terms) -> RestartConclusion:
    """The verdict: a broken promise is a regression, evidence that is missing is never a pass."""
    broken = [promise for promise in promises if promise.state is State.BROKEN]
    if broken:
        names = ", ".join(promise.rule.partition("/")[2] for promise in broken)
        tested = sum(promise.state is not State.UNTESTED for promise in promises)
        reason = f"the restart of {terms.kill} broke {len(broken)} of {tested} promises: {names}"
        return RestartConclusion(verdict=Verdict.REGRESSION, reason=reason)
    if not was_killed(seen):
        return _before_the_kill(seen)
    if seen.ending is not RestartEnding.COMPLETE:
        return RestartConclusion(
            verdict=Verdict.INCONCLUSIVE, reason="the budget ended before the check did"
        )
    if empty := _proves_nothing(seen, terms):
        return RestartConclusion(verdict=Verdict.VOID, reason=empty)
    after = seen.phases[Phase.AFTER]
    return RestartConclusion(
        verdict=Verdict.PASS,
        reason=f"{terms.kill} was killed by {terms.signal} and came back: {after.ok} of {after.sent} requests were "
        f"answered after it, and none hung",
    )


def _before_the_kill(seen: Observation) -> RestartConclusion:
    baseline = seen.phases.get(Phase.BASELINE, Counts())
    if seen.failures:
        outside = seen.failures[0].kind is FailureKind.OUTSIDE
        return RestartConclusion(
            verdict=Verdict.INFRA if outside else Verdict.REGRESSION,
            reason=f"nothing was killed yet: {seen.failures[0].message}",
        )
    if seen.ending is not RestartEnding.COMPLETE:
        return RestartConclusion(
            verdict=Verdict.INCONCLUSIVE, reason="the budget ended before anything was killed"
        )
    if seen.unready_before:
        reason = f"`{seen.unready_before[0].label}` does not hold even before anything is killed"
    elif not baseline.ok:
        reason = "nothing was answered even before anything was killed"
    else:
        reason = f"{baseline.failed + baseline.hung} of {baseline.sent} requests were not answered before the kill"
    return RestartConclusion(
        verdict=Verdict.VOID, reason=f"{reason}, so a restart can prove nothing"
    )


def _proves_nothing(seen: Observation, terms: Terms) -> str | None:
    counts = seen.phases
    if all(counts[phase].empty == counts[phase].ok for phase in (Phase.BASELINE, Phase.AFTER)):
        return "every answer is empty, before the kill and after it"
    if terms.same_outputs and len(seen.unstable) == seen.asked:
        return "the baseline itself never answers the same twice, so the same answers cannot be asked of it"
    return None


def findings(
    seen: Observation, promises: Sequence[Promise], conclusion: RestartConclusion
) -> Iterator[Finding]:
    """One for each broken promise, or the reason why there is no evidence, and then what is worth knowing."""
    for promise in promises:
        if promise.state is State.BROKEN:
            yield Finding(
                rule=promise.rule,
                severity=Severity.ERROR,
                summary=promise.message,
                evidence=promise.evidence,
                remedy=promise.remedy,
            )
    if not was_killed(seen) and seen.failures:
        yield finding_of(seen.failures[0])
    elif conclusion.verdict is Verdict.VOID:
        yield _void(seen, conclusion)
    elif conclusion.verdict is Verdict.INCONCLUSIVE:
        yield Finding(
            rule="restart-check/budget-spent",
            severity=Severity.ERROR,
            summary=conclusion.reason,
            remedy="raise `--budget`, or lower `--outage`, `passes` and the number of requests",
        )
    yield from _noticed(seen)


def _void(seen: Observation, conclusion: RestartConclusion) -> Finding:
    told = [f"{held.label}: {held.seen}" for held in seen.unready_before]
    told += seen.phases.get(Phase.BASELINE, Counts()).errors
    rule = "proves-nothing" if was_killed(seen) else "baseline-failed"
    return Finding(
        rule=f"restart-check/{rule}",
        severity=Severity.ERROR,
        summary=conclusion.reason,
        evidence=tuple(Evidence(excerpt=text) for text in told),
        remedy="mend the load or `recovered` first: send one request by hand, as in `curl -i`",
    )


def _noticed(seen: Observation) -> Iterator[Finding]:
    if seen.unstable and len(seen.unstable) < seen.asked:
        yield Finding(
            rule="restart-check/unstable-outputs",
            severity=Severity.WARNING,
            summary=f"{len(seen.unstable)} of {seen.asked} requests got different answers in the baseline itself, and "
            "are left out of the comparison",
            evidence=(Evidence(excerpt=" ".join(seen.unstable[:10])),),
            remedy="make the server steadier, or ask it one at a time with `concurrency = 1`",
        )
    if seen.stopped is not None:
        yield from stop_findings(seen.stopped)

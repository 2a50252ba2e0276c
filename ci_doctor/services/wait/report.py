# SPDX-License-Identifier: Apache-2.0
"""From a wait to its outcome: what died, what its log says. Pure."""

import signal

from msgspec import structs

from ci_doctor.model.facts.wait import WaitFacts
from ci_doctor.model.finding import Evidence, Finding, RemedyKind
from ci_doctor.model.outcome import Case, CaseOutcome, Failure, Outcome, signal_kind
from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import duration
from ci_doctor.services.findings import finding_of, with_next_step
from ci_doctor.services.probes.ready import ReadinessProbe
from ci_doctor.services.wait.waited import Waited

_OUTCOMES = {Verdict.PASS: CaseOutcome.PASSED, Verdict.INFRA: CaseOutcome.ERROR}


def outcome_of(waited: Waited, probe: ReadinessProbe) -> Outcome:
    """What the wait comes to."""
    facts = WaitFacts(
        pid=waited.pid,
        name=waited.name,
        probe=probe.describe(),
        waited_s=round(waited.waited_s, 3),
        answer=waited.answer or None,
        cause=waited.failure,
        received=waited.received.name if waited.received else None,
    )
    if waited.received is not None:
        return _interrupted(waited, waited.received, facts)
    verdict = _verdict(waited.failure)
    return Outcome(
        verdict=verdict,
        summary=_summary(waited, probe),
        findings=() if waited.failure is None else (_finding(waited.failure),),
        cases=(_case(waited, verdict),),
        facts=facts,
    )


def _interrupted(waited: Waited, received: signal.Signals, facts: WaitFacts) -> Outcome:
    message = (
        f"interrupted by {received.name} after {duration(waited.waited_s)}; {waited.name} was not "
        "ready yet"
    )
    if waited.answer:
        message += f": {waited.answer}"
    error = Failure(message=message, kind=signal_kind(received.name))
    return Outcome(verdict=None, summary=message, error=error, facts=facts)


def _verdict(failure: ServiceFailure | None) -> Verdict:
    if failure is None:
        return Verdict.PASS
    return failure.verdict


def _summary(waited: Waited, probe: ReadinessProbe) -> str:
    if waited.failure is None:
        age = duration(waited.waited_s)
        return f"{waited.name} is ready: {probe.describe()}, after {age}"
    if waited.failure.kind is FailureKind.NOT_READY:
        return f"{waited.name} was not ready in time: {probe.describe()}"
    return f"{waited.name} will not become ready: {probe.describe()}"


def _finding(failure: ServiceFailure) -> Finding:
    finding = finding_of(failure)
    advice = _advice(failure)
    if advice is not None:
        finding = structs.replace(finding, remedy=advice, remedy_kind=RemedyKind.ADVICE)
    if not failure.exit_unknown:
        return finding
    why = "exit code unknown: it is not a child of ci-doctor, and its own parent has taken the code"
    return structs.replace(finding, evidence=(*finding.evidence, Evidence(excerpt=why)))


def _advice(failure: ServiceFailure) -> str | None:
    """What to do, for options that only `wait` has; None if the finding has its own remedy."""
    if failure.kind is FailureKind.NOT_READY:
        return with_next_step(_advice_for_unready(failure), failure)
    if failure.kind is FailureKind.DIED and failure.log is None:
        return "name its log with --log FILE, and its last lines stand here"
    return None


def _advice_for_unready(failure: ServiceFailure) -> str:
    if failure.pid is None:
        return "see whether it was started, and whether it writes this pidfile"
    if failure.log is None:
        return "name its log with --log FILE; raise --timeout only if it still made progress"
    return "see whether it still made progress before you raise --timeout"


def _case(waited: Waited, verdict: Verdict) -> Case:
    message = None
    detail = None
    if waited.failure is not None:
        message = waited.failure.message
        detail = "\n".join(waited.failure.tail) or None
    return Case(
        group="services",
        name=waited.name,
        outcome=_OUTCOMES.get(verdict, CaseOutcome.FAILED),
        message=message,
        detail=detail,
        duration_s=round(waited.waited_s, 3),
    )

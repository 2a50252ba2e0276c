# SPDX-License-Identifier: Apache-2.0
"""From a wait to what its report says: the verdict first, what died, what its log says. Pure."""

import signal
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs, to_builtins

from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Case, CaseOutcome, Failure
from ci_doctor.model.verdict import Verdict
from ci_doctor.services.findings import finding_of
from ci_doctor.services.outcome import FailureKind, ServiceFailure
from ci_doctor.services.probes.ready import Probe
from ci_doctor.services.wait.waiting import Waited


def report_fields(waited: Waited, probe: Probe, codes: Mapping[str, int]) -> dict[str, Any]:
    """The fields of the report; `codes` are a repository's own, by verdict."""
    facts = {
        "pid": waited.pid,
        "name": waited.name,
        "probe": probe.describe(),
        "waited_s": round(waited.waited_s, 3),
        "seen": waited.seen or None,
        "cause": to_builtins(waited.failure),
        "received": waited.received.name if waited.received else None,
    }
    if waited.received is not None:
        return {**_interrupted(waited), "facts": facts}
    verdict = _verdict(waited.failure)
    return {
        "verdict": verdict,
        "exit_code": ExitCode.PASS if verdict is Verdict.PASS else codes[verdict.value],
        "summary": _summary(waited, probe),
        "findings": tuple(_findings(waited)),
        "cases": (_case(waited, verdict),),
        "facts": facts,
    }


def _interrupted(waited: Waited) -> dict[str, Any]:
    seen = f": {waited.seen}" if waited.seen else ""
    message = (
        f"interrupted by {waited.received.name if waited.received else ''} after {_seconds(waited.waited_s)}; "
        f"{waited.name} was not ready yet{seen}"
    )
    return {
        "verdict": None,
        "error": Failure(message=message),
        "exit_code": ExitCode.SIGINT if waited.received is signal.SIGINT else ExitCode.SIGTERM,
        "summary": message,
    }


def _verdict(failure: ServiceFailure | None) -> Verdict:
    if failure is None:
        return Verdict.PASS
    return Verdict.INFRA if failure.kind is FailureKind.OUTSIDE else Verdict.REGRESSION


def _summary(waited: Waited, probe: Probe) -> str:
    if waited.failure is None:
        return f"{waited.name} is ready: {probe.describe()}, after {_seconds(waited.waited_s)}"
    if waited.failure.kind is FailureKind.NOT_READY:
        return f"{waited.name} was not ready in time: {probe.describe()}"
    return f"{waited.name} will not become ready: {probe.describe()}"


def _findings(waited: Waited) -> Iterator[Finding]:
    if waited.failure is None:
        return
    finding = finding_of(waited.failure)
    if waited.failure.kind is FailureKind.NOT_READY:
        finding = structs.replace(finding, remedy=_remedy(waited.failure))
    elif waited.failure.log is None and waited.failure.kind is FailureKind.DIED:
        finding = structs.replace(
            finding, remedy="name its log with --log FILE, and its last lines stand here"
        )
    if _exit_is_unknown(waited.failure):
        told = "exit code unknown: it is not a child of ci-doctor, and its own parent has taken the code"
        finding = structs.replace(finding, evidence=(*finding.evidence, Evidence(excerpt=told)))
    yield finding


def _remedy(failure: ServiceFailure) -> str:
    if failure.pid is None:
        return "see whether it was started, and whether it writes this pidfile"
    if failure.log is None:
        return "name its log with --log FILE; raise --timeout only if it still made progress"
    return "see whether it still made progress before you raise --timeout"


def _exit_is_unknown(failure: ServiceFailure) -> bool:
    ended = failure.kind is not FailureKind.NOT_READY and "exit code is unknown" in failure.message
    return ended and failure.exit_code is None and failure.signal is None


def _case(waited: Waited, verdict: Verdict) -> Case:
    outcomes = {Verdict.PASS: CaseOutcome.PASSED, Verdict.INFRA: CaseOutcome.ERROR}
    return Case(
        group="services",
        name=waited.name,
        outcome=outcomes.get(verdict, CaseOutcome.FAILED),
        message=waited.failure.message if waited.failure else None,
        detail="\n".join(waited.failure.tail) or None if waited.failure else None,
        duration_s=round(waited.waited_s, 3),
    )


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.1f} s" if duration_s >= 0.1 else f"{duration_s * 1000:.0f} ms"

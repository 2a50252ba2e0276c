# SPDX-License-Identifier: Apache-2.0
"""From a launch to what its report says: the verdict first, the root cause, what followed. Pure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import Attachment, Attempt, Case, CaseOutcome
from ci_doctor.services.findings import finding_of, stop_findings
from ci_doctor.services.launch.launched import ClientRun, Launched
from ci_doctor.services.launch.record import ServiceRun
from ci_doctor.services.launch.verdict import Conclusion, client_end, client_name, seconds, status
from ci_doctor.services.outcome import FailureKind, ServiceFailure


def report_fields(
    launched: Launched, conclusion: Conclusion, *, directory: Path, cwd: Path
) -> dict[str, Any]:
    """The other fields of the report in `directory`; paths below `cwd` are shown relative to it."""
    return {
        "findings": tuple(_findings(launched, cwd)),
        "cases": tuple(_cases(launched, conclusion)),
        "attempts": tuple(_attempts(launched, directory)),
        "attachments": tuple(_attachments(launched, directory)),
        "facts": _facts(launched),
    }


def _findings(launched: Launched, cwd: Path) -> Iterator[Finding]:
    """The root cause first, then what is only worth knowing."""
    if launched.failure is not None:
        yield finding_of(_shown(launched.failure, cwd))
    elif launched.client is not None and launched.received is None and status(launched.client):
        yield from _client_failed(launched.client)
    if launched.late is not None:
        late = finding_of(_shown(launched.late, cwd), Severity.WARNING)
        yield structs.replace(late, rule="services/ended-with-client", remedy=None)
    if launched.stopped is not None:
        stopped = launched.stopped
        yield from stop_findings(
            structs.replace(stopped, killed=()) if launched.hurried else stopped
        )


def _client_failed(client: ClientRun) -> Iterator[Finding]:
    if client.unable is None:
        yield Finding(
            rule="services/client-failed",
            severity=Severity.ERROR,
            summary=f"{client_end(client)}, while every service lived",
            remedy="see what it printed above: no service failed before it",
        )


def _shown(failure: ServiceFailure, cwd: Path) -> ServiceFailure:
    if failure.log is None:
        return failure
    return structs.replace(failure, log=_relative(failure.log, cwd))


def _relative(path: str, directory: Path) -> str:
    below = Path(path)
    return str(below.relative_to(directory)) if below.is_relative_to(directory) else path


def _cases(launched: Launched, conclusion: Conclusion) -> Iterator[Case]:
    if launched.received is not None:
        return
    for run in launched.services:
        yield _service_case(run, launched.failure)
    if (client := launched.client) is not None:
        yield _client_case(client, launched, conclusion)


def _service_case(run: ServiceRun, failure: ServiceFailure | None) -> Case:
    if failure is not None and failure.service == run.name:
        outcome = CaseOutcome.ERROR if failure.kind is FailureKind.OUTSIDE else CaseOutcome.FAILED
        detail = "\n".join(failure.tail) or None
        return Case(
            group="services", name=run.name, outcome=outcome, message=failure.message, detail=detail
        )
    outcome = CaseOutcome.PASSED if run.ready_s is not None else CaseOutcome.SKIPPED
    return Case(
        group="services",
        name=run.name,
        outcome=outcome,
        message=_outcome(run, failure),
        duration_s=run.ready_s,
    )


def _client_case(client: ClientRun, launched: Launched, conclusion: Conclusion) -> Case:
    if launched.failure is not None:
        message = conclusion.summary
        return Case(
            group="client", name=client_name(client), outcome=CaseOutcome.SKIPPED, message=message
        )
    outcome = CaseOutcome.FAILED if conclusion.exit_code else CaseOutcome.PASSED
    return Case(
        group="client",
        name=client_name(client),
        outcome=outcome,
        message=conclusion.summary,
        duration_s=client.duration_s,
    )


def _attempts(launched: Launched, directory: Path) -> Iterator[Attempt]:
    for run in launched.services:
        ended = run.ended_at if run.ended_at is not None else run.started_at
        yield Attempt(
            name=run.name,
            outcome=_outcome(run, launched.failure),
            ok=run.ready_s is not None and not _failed(run, launched.failure),
            duration_s=round(ended - run.started_at, 3)
            if ended is not None and run.started_at is not None
            else 0.0,
            log=_relative(run.log, directory) if run.log else None,
            facts={"pid": run.pid, "ready_s": run.ready_s, "peak_rss": run.peak_rss},
        )


def _failed(run: ServiceRun, failure: ServiceFailure | None) -> bool:
    return failure is not None and failure.service == run.name


def _outcome(run: ServiceRun, failure: ServiceFailure | None) -> str:
    """`ready after 3.2 s, then died: exit code 1`."""
    ready = f"ready after {seconds(run.ready_s)}" if run.ready_s is not None else "never ready"
    if run.started_at is None:
        return "not started"
    if run.by_itself:
        how = f"killed by {run.signal}" if run.signal else f"exit code {run.exit_code}"
        return f"{ready}, died: {how}"
    return f"{ready}, failed" if _failed(run, failure) else f"{ready}, stopped"


def _attachments(launched: Launched, directory: Path) -> Iterator[Attachment]:
    for run in launched.services:
        if run.log is not None:
            yield Attachment(path=_relative(run.log, directory), title=f"log of {run.name}")


def _facts(launched: Launched) -> dict[str, Any]:
    return {
        "services": {run.name: to_builtins(run) for run in launched.services},
        "client": to_builtins(launched.client),
        "cause": to_builtins(launched.failure),
        "received": launched.received.name if launched.received else None,
        "stopped": to_builtins(launched.stopped),
    }

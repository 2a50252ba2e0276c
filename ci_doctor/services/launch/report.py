# SPDX-License-Identifier: Apache-2.0
"""From a launch to its outcome: the verdict, the root cause, what followed. Pure."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec import convert, structs, to_builtins

from ci_doctor.model.facts.launch import ClientFacts, LaunchFacts, ServiceRunFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Attachment, Attempt, Case, CaseOutcome, Failure, Outcome
from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.model.table import Row, Table, row
from ci_doctor.render.formatting import duration
from ci_doctor.services import rules
from ci_doctor.services.findings import finding_of, late_finding, stop_findings
from ci_doctor.services.launch.conclude import LaunchConclusion, client_end, conclude, status_of
from ci_doctor.services.launch.launched import ClientRun, Launched
from ci_doctor.services.launch.plan import LaunchPlan
from ci_doctor.services.launch.record import ServiceRun
from ci_doctor.services.leaks.findings import leak_table
from ci_doctor.services.paths import relative


def outcome_of(
    launched: Launched, *, directory: Path, cwd: Path, events: Path | None = None
) -> Outcome:
    """What the launch comes to.

    The report lies in `directory`; findings name paths below `cwd` relative to it. `events` is the
    file of events, if there is one.
    """
    conclusion = conclude(launched)
    return Outcome(
        verdict=conclusion.verdict,
        summary=conclusion.summary,
        error=conclusion.error,
        findings=tuple(_findings(launched, cwd)),
        tables=_tables(launched),
        facts=_facts(launched),
        cases=tuple(_cases(launched, conclusion)),
        attempts=tuple(_attempts(launched, directory)),
        attachments=tuple(_attachments(launched, directory, events)),
        command_status=conclusion.status,
    )


def _tables(launched: Launched) -> tuple[Table, ...]:
    if launched.stopped is None:
        return ()
    return leak_table(launched.stopped.left_behind)


def refused(status: int, message: str) -> Outcome:
    """A client that cannot be run, with a shell's exit status; nothing was started."""
    hint = "check the command after `--`; nothing was started"
    error = Failure(message=message, hint=hint)
    return Outcome(verdict=None, summary=message, error=error, command_status=status)


def would_do(plan: LaunchPlan) -> Outcome:
    """What would be started, and nothing done."""
    rows = [_planned(plan, name) for name in plan.order]
    # The client comes last, as it does in time.
    if plan.request.client:
        rows.append(row("then", shlex.join(plan.request.client)))
    return Outcome(
        verdict=None,
        summary=f"would start {', '.join(plan.order)}",
        tables=(Table(title="Services", rows=tuple(rows)),),
    )


def _planned(plan: LaunchPlan, name: str) -> Row:
    spec = plan.request.specs[name]
    command = shlex.join(spec.words())
    needs = spec.needs
    if needs:
        return row(name, command, f"when {', '.join(needs)} is ready")
    return row(name, command)


def _findings(launched: Launched, cwd: Path) -> Iterator[Finding]:
    """The root cause first, then what is only worth a look."""
    if launched.failure is not None:
        yield finding_of(_relative_log(launched.failure, cwd))
    elif launched.client is not None and launched.received is None:
        yield from _client_failed(launched.client)
    if launched.late is not None:
        yield late_finding(_relative_log(launched.late, cwd))
    stopped = launched.stopped
    if stopped is None:
        return
    if launched.hurried:  # what was killed had no time to end by itself
        stopped = structs.replace(stopped, killed=())
    yield from stop_findings(stopped)


def _client_failed(client: ClientRun) -> Iterator[Finding]:
    if client.unable is None and status_of(client) != 0:
        yield rules.CLIENT_FAILED.finding(
            f"{client_end(client)}, while every service lived",
            remedy="see what it printed above: no service failed before it",
        )


def _relative_log(failure: ServiceFailure, cwd: Path) -> ServiceFailure:
    if failure.log is None:
        return failure
    return structs.replace(failure, log=relative(failure.log, cwd))


def _cases(launched: Launched, conclusion: LaunchConclusion) -> Iterator[Case]:
    # What was interrupted was not tested, and no case may look as if it were.
    if launched.received is not None:
        return
    for run in launched.services:
        yield _service_case(run, launched.failure)
    if launched.client is not None:
        yield _client_case(launched.client, launched, conclusion)


def _service_case(run: ServiceRun, failure: ServiceFailure | None) -> Case:
    if failure is not None and failure.service == run.name:
        outcome = CaseOutcome.FAILED
        # An error of the machine is none of the service: JUnit readers keep the two apart.
        if failure.kind is FailureKind.OUTSIDE:
            outcome = CaseOutcome.ERROR
        return Case(
            group="services",
            name=run.name,
            outcome=outcome,
            message=failure.message,
            detail="\n".join(failure.tail) or None,
        )
    # A service that another one's failure kept from becoming ready has not failed itself.
    outcome = CaseOutcome.SKIPPED
    if run.ready_s is not None:
        outcome = CaseOutcome.PASSED
    return Case(
        group="services",
        name=run.name,
        outcome=outcome,
        message=_story(run, failure),
        duration_s=run.ready_s,
    )


def _client_case(client: ClientRun, launched: Launched, conclusion: LaunchConclusion) -> Case:
    summary = conclusion.summary
    if launched.failure is not None:
        return Case(group="client", name=client.name, outcome=CaseOutcome.SKIPPED, message=summary)
    outcome = CaseOutcome.PASSED
    if conclusion.status:
        outcome = CaseOutcome.FAILED
    return Case(
        group="client",
        name=client.name,
        outcome=outcome,
        message=summary,
        duration_s=client.duration_s,
    )


def _attempts(launched: Launched, directory: Path) -> Iterator[Attempt]:
    for run in launched.services:
        yield Attempt(
            name=run.name,
            outcome=_story(run, launched.failure),
            ok=run.ready_s is not None and not _failed(run, launched.failure),
            duration_s=round(run.duration_s, 3),
            log=relative(run.log, directory) if run.log else None,
            facts={"pid": run.pid, "ready_s": run.ready_s, "peak_rss": run.peak_rss},
        )


def _failed(run: ServiceRun, failure: ServiceFailure | None) -> bool:
    return failure is not None and failure.service == run.name


def _story(run: ServiceRun, failure: ServiceFailure | None) -> str:
    """`ready after 3.2 s, then died: exit code 1`."""
    if run.started_at is None:
        return "not started"
    ready = "never ready"
    if run.ready_s is not None:
        ready = f"ready after {duration(run.ready_s)}"
    if run.by_itself:
        end = "its exit code is unknown"
        if run.signal:
            end = f"killed by {run.signal}"
        elif run.exit_code is not None:
            end = f"exit code {run.exit_code}"
        return f"{ready}, died: {end}"
    if _failed(run, failure):
        return f"{ready}, failed"
    return f"{ready}, stopped"


def _attachments(launched: Launched, directory: Path, events: Path | None) -> Iterator[Attachment]:
    for run in launched.services:
        if run.log is None:
            continue
        path = relative(run.log, directory)
        yield Attachment(path=path, title=f"log of {run.name}")
    if events is not None:
        yield Attachment(path=str(events), title="events", media_type="application/jsonl")


def _facts(launched: Launched) -> LaunchFacts:
    services = {}
    for run in launched.services:
        services[run.name] = convert(to_builtins(run), ServiceRunFacts)
    client = None
    if launched.client is not None:
        client = convert(to_builtins(launched.client), ClientFacts)
    return LaunchFacts(
        services=services,
        client=client,
        cause=launched.failure,
        received=launched.received.name if launched.received else None,
        stopped=launched.stopped,
    )

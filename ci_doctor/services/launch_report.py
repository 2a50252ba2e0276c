# SPDX-License-Identifier: Apache-2.0
"""What a launch means: its verdict, its findings, its outcome. Pure."""

import errno
import os
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from ci_doctor.model.facts.launch import (
    ClientRun,
    LaunchFacts,
    ServiceFailure,
    ServiceRun,
    StopResult,
)
from ci_doctor.model.outcome import (
    Attachment,
    Case,
    CaseOutcome,
    Evidence,
    Failure,
    Finding,
    Outcome,
    Table,
    Verdict,
    row,
)
from ci_doctor.render.formatting import duration
from ci_doctor.services.findings import (
    CLIENT_FAILED,
    evidence_of,
    finding_of,
    late_finding,
    leak_table,
    stop_findings,
    summary,
)
from ci_doctor.services.instance import attempt_of, interrupted, logs_of, with_relative_log
from ci_doctor.services.spec import LaunchContext, ServiceSpec
from ci_doctor.system.processes.process import describe_exit


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """Which services to start, and what to run under them.

    `names` of `specs` are started, with everything that they need; `services_directory` is the base
    of their relative `cwd`. `limit_s` is what all have together to become ready, None for each
    one's own `start_timeout`. `client` is a command, empty for none. It runs in `client_directory`
    on our own stdin and stderr and the file descriptor `client_output`. All run under
    `environment`. `directory` receives the logs, `events` is a file to write events to.
    """

    specs: Mapping[str, ServiceSpec]
    names: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    services_directory: Path = Path()
    limit_s: float | None = None
    client: tuple[str, ...] = ()
    client_directory: Path = Path()
    client_output: int = 1
    events: Path | None = None


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """A request that was checked: `order` are all services, each after what it needs."""

    request: LaunchRequest
    order: tuple[str, ...]
    context: LaunchContext


_HOW_TO_RUN = "is it made for this machine, and does a script begin with #! and its interpreter?"
# What a shell ends with if it cannot run a command, and ci-doctor if it does not know its status.
NOT_FOUND, NOT_EXECUTABLE, UNKNOWN = 127, 126, 70


class Launched(Struct, kw_only=True):
    """How it ended: by a `failure`, by the signal `received`, or by the client's own end.

    `failure` is the root cause. `late` is a service that ended in the moment in which the client
    ended well. `beside` is what a service that lived tells of a client that failed: a process that
    it has lost and started again, or a line of its log.
    `hurried` tells that what was killed
    had no time to end by itself.
    """

    services: tuple[ServiceRun, ...] = ()
    failure: ServiceFailure | None = None
    late: ServiceFailure | None = None
    beside: ServiceFailure | None = None
    received: signal.Signals | None = None
    client: ClientRun | None = None
    stopped: StopResult = StopResult(duration_s=0.0)
    hurried: bool = False


def conclude(launched: Launched) -> Outcome:
    """The verdict: of the service that failed, or of the client."""
    if launched.failure is not None:
        error = launched.failure.usage_error
        if error is not None:
            return Outcome(verdict=None, summary=error.message, error=error)
        return Outcome(verdict=launched.failure.verdict, summary=_blame(launched, launched.failure))
    if launched.received is not None:
        error = interrupted(launched.received.name, launched.stopped)
        return Outcome(verdict=None, summary=error.message, error=error)
    client = launched.client
    assert client is not None  # noqa: S101 - without one, only a failure or a signal ends a launch
    if client.unable is not None:
        message = f"cannot run {client.words[0]}: {os.strerror(client.unable)}"
        return Outcome(
            verdict=None,
            summary=message,
            error=Failure(message=message, hint=_HOW_TO_RUN),
            command_status=NOT_FOUND if client.unable == errno.ENOENT else NOT_EXECUTABLE,
        )
    status = status_of(client)
    strict = _strict_leaks(launched)
    # The client's own failure says more, and is a failure too.
    if strict and status == 0:
        return Outcome(
            verdict=Verdict.FAILED,
            summary=f"{client_end(client)}, but {strict}",
        )
    return Outcome(
        verdict=Verdict.FAILED if status else Verdict.PASS,
        summary=f"{client_end(client)}; {_lived(launched)}",
        command_status=status,
    )


def _strict_leaks(launched: Launched) -> str | None:
    """What a service that may leave nothing has left behind, in words."""
    left = launched.stopped.left_behind
    things = [thing for thing in left.things if thing.strict]
    if things:
        services = dict.fromkeys(name for thing in things for name in thing.services)
        return f"{_listed(list(services))} left behind {summary(things)}"
    if left.unseen:
        return "what its services left behind could not be seen"
    return None


def status_of(client: ClientRun) -> int:
    """The client's exit status as a shell has it; 70 if nobody knows it."""
    if client.returncode is None:
        return UNKNOWN
    if client.returncode < 0:
        return 128 - client.returncode  # what a shell's `$?` holds after a signal (POSIX, 2.8.2)
    return client.returncode


def client_end(client: ClientRun) -> str:
    """`pytest ended with exit code 3 after 3.2 s`."""
    if client.returncode is None:
        return f"how {client.name} ended is not known"
    verb = "ended with"
    if client.returncode < 0:  # a signal ended it: `was killed by SIGTERM`
        verb = "was"
    end = describe_exit(client.returncode)
    return f"{client.name} {verb} {end} after {duration(client.duration_s)}"


def _blame(launched: Launched, failure: ServiceFailure) -> str:
    failed = f"the service {failure.service} failed"
    if launched.client is None:
        return f"{failed}, so every service was stopped"
    if launched.client.duration_s == 0.0:
        return f"{failed}, so {launched.client.name} was not run"
    return f"{failed} while {launched.client.name} ran"


def _lived(launched: Launched) -> str:
    if launched.late is not None:
        return f"{launched.late.service} ended in the same moment"
    names = [run.name for run in launched.services]
    return f"{_listed(names)} lived until then"


def _listed(names: Sequence[str]) -> str:
    """`kv`, `kv and vllm`, `kv, vllm and router`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def outcome_of(
    launched: Launched, *, directory: Path, cwd: Path, events: Path | None = None
) -> Outcome:
    """What the launch comes to.

    The report lies in `directory`; findings name paths below `cwd` relative to it. `events` is the
    file of events, if there is one.
    """
    conclusion = conclude(launched)
    attachments = logs_of(launched.services, directory)
    if events is not None:
        attachments += (
            Attachment(path=str(events), title="events", media_type="application/jsonl"),
        )
    return structs.replace(
        conclusion,
        findings=tuple(_findings(launched, cwd)),
        tables=leak_table(launched.stopped.left_behind),
        facts=LaunchFacts(
            services={run.name: run for run in launched.services},
            client=launched.client,
            cause=launched.failure,
            beside=launched.beside,
            received=launched.received.name if launched.received else None,
            stopped=launched.stopped,
        ),
        cases=tuple(_cases(launched, conclusion)),
        attempts=tuple(
            attempt_of(
                run,
                directory,
                name=run.name,
                outcome=_story(run, launched.failure),
                is_ok=run.ready_s is not None and not _failed(run, launched.failure),
            )
            for run in launched.services
        ),
        attachments=attachments,
    )


def refused(status: int, message: str) -> Outcome:
    """A client that cannot be run, with a shell's exit status; nothing was started."""
    hint = "check the command after `--`; nothing was started"
    error = Failure(message=message, hint=hint)
    return Outcome(verdict=None, summary=message, error=error, command_status=status)


def would_do(plan: LaunchPlan) -> Outcome:
    """What would be started, and nothing done."""
    rows = []
    for name in plan.order:
        spec = plan.request.specs[name]
        needs = [f"when {', '.join(spec.needs)} is ready"] if spec.needs else []
        rows.append(row(name, shlex.join(spec.words()), *needs))
    # The client comes last, as it does in time.
    if plan.request.client:
        rows.append(row("then", shlex.join(plan.request.client)))
    return Outcome(
        verdict=None,
        summary=f"would start {', '.join(plan.order)}",
        tables=(Table(title="Services", rows=tuple(rows)),),
    )


def _findings(launched: Launched, cwd: Path) -> Iterator[Finding]:
    """The root cause first, then what is only worth a look."""
    if launched.failure is not None:
        yield finding_of(with_relative_log(launched.failure, cwd))
    elif launched.client is not None and launched.received is None:
        client = launched.client
        if client.unable is None and status_of(client) != 0:
            beside = launched.beside
            yield CLIENT_FAILED.finding(
                f"{client_end(client)}, while every service lived",
                evidence=()
                if beside is None
                else (Evidence(excerpt=beside.message), *evidence_of(beside)),
                remedy="see what it printed above: no service failed before it",
            )
    if launched.late is not None:
        yield late_finding(with_relative_log(launched.late, cwd))
    stopped = launched.stopped
    if launched.hurried:  # what was killed had no time to end by itself
        stopped = structs.replace(stopped, killed=())
    yield from stop_findings(stopped)


def _cases(launched: Launched, conclusion: Outcome) -> Iterator[Case]:
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
        if failure.may_be_retried:
            outcome = CaseOutcome.ERROR
        return Case(
            group="services",
            name=run.name,
            outcome=outcome,
            message=failure.message,
            detail="\n".join(failure.tail) or None,
        )
    # A service that another one's failure kept from becoming ready has not failed itself.
    outcome = CaseOutcome.SKIPPED if run.ready_s is None else CaseOutcome.PASSED
    return Case(
        group="services",
        name=run.name,
        outcome=outcome,
        message=_story(run, failure),
        duration_s=run.ready_s,
    )


def _client_case(client: ClientRun, launched: Launched, conclusion: Outcome) -> Case:
    summary = conclusion.summary
    if launched.failure is not None:
        return Case(group="client", name=client.name, outcome=CaseOutcome.SKIPPED, message=summary)
    outcome = CaseOutcome.PASSED
    if conclusion.command_status:
        outcome = CaseOutcome.FAILED
    return Case(
        group="client",
        name=client.name,
        outcome=outcome,
        message=summary,
        duration_s=client.duration_s,
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
        return f"{ready}, died: {run.how}"
    if _failed(run, failure):
        return f"{ready}, failed"
    return f"{ready}, stopped"

# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: a whole check, from its request to its outcome."""

import asyncio
import contextlib
import functools
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from ci_doctor.config.decoding import seconds_above_zero, seconds_of
from ci_doctor.errors import UsageError
from ci_doctor.load.looks import count_prompts
from ci_doctor.load.requests import read_requests
from ci_doctor.load.sending import Sender
from ci_doctor.machine.gpus import check_gpu_library, read_gpu_memory
from ci_doctor.model.facts.restart_check import Observation, Phase, RestartEnding, Terms
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.model.table import Table, row
from ci_doctor.model.words import did_you_mean
from ci_doctor.render.formatting import amount
from ci_doctor.restart.answers import Notes, RestartProgress
from ci_doctor.restart.phases import FailedError, Phases
from ci_doctor.restart.report import outcome_of
from ci_doctor.restart.settings import (
    RestartPlan,
    RestartRequest,
    RestartSettings,
    check_conditions,
    plan_condition,
)
from ci_doctor.restart.traffic import logs_of, one_pass
from ci_doctor.services.busy_timeout import all_waits
from ci_doctor.services.check import check_scripts, check_services
from ci_doctor.services.group import start_group
from ci_doctor.services.spec import LaunchContext, reserve_of
from ci_doctor.services.starts import Starts
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.log_files import redact_files
from ci_doctor.system.secrets.redaction import Redactor

# What these do by default is not to end a process (signal(7)).
_NO_END = frozenset(
    {
        signal.SIGCHLD,
        signal.SIGCONT,
        signal.SIGSTOP,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGURG,
        signal.SIGWINCH,
    }
)


def make_plan(request: RestartRequest) -> RestartPlan:
    """Check everything before anything is started. Raises UsageError for what cannot work."""
    settings = request.settings
    names = settings.services or tuple(request.specs)
    context = LaunchContext(
        environment=request.environment,
        directory=request.services_directory.absolute(),
        log_directory=request.directory.absolute() / "logs",
    )
    order = check_services(request.specs, names, context)
    check_scripts(request.specs, order, context)
    if settings.gpu_memory:
        check_gpu_library()
    conditions = [plan_condition(written, names[-1], order) for written in settings.recovered]
    load, verify = _commands_of_writes(settings)
    requests = () if request.requests is None else read_requests(request.requests)
    budget_s = seconds_above_zero(settings.budget, "budget")
    reserve_s = reserve_of(budget_s)
    # With `same_outputs` a difference is a broken promise anyway; without requests there is none.
    has_controls = requests and not settings.same_outputs
    ended_by = read_signal(settings.signal)
    plan = RestartPlan(
        request=request,
        context=context,
        terms=Terms(
            kill=_killed(request, names, order),
            signal=ended_by.name,
            request_timeout_s=seconds_above_zero(settings.request_timeout, "request_timeout"),
            release_timeout_s=seconds_of(settings.release_timeout, "release_timeout"),
            recovery_timeout_s=seconds_above_zero(settings.recovery_timeout, "recovery_timeout"),
            throughput=settings.throughput,
            same_outputs=settings.same_outputs,
            control_starts=settings.control_starts if has_controls else 0,
            acknowledged=settings.acknowledged if load else 0,
        ),
        names=names,
        order=order,
        signal=ended_by,
        requests=requests,
        load=load,
        verify=verify,
        outage_s=seconds_of(settings.outage, "outage"),
        conditions=tuple(conditions),
        deadline=request.started + budget_s - reserve_s,
        # Of the reserve, because SIGKILL, the logs and the report come after the grace.
        grace_s=min(5.0, reserve_s / 3),
    )
    # Last, because a probe can only be checked with the placeholders of all services.
    check_conditions(plan)
    return plan


def read_signal(text: str) -> signal.Signals:
    """A signal that ends a process, by name (`SIGKILL`, `term`). Raises UsageError."""
    usable = {}
    for number in signal.Signals:
        if number not in _NO_END:
            usable[number.name] = number
    name = text.strip().upper()
    if not name.startswith("SIG"):
        name = f"SIG{name}"
    if name in usable:
        return usable[name]
    if name in signal.Signals.__members__:
        raise UsageError(
            f"signal: {name} does not end a process", hint='use "SIGKILL" or "SIGTERM"'
        )
    raise UsageError(f"signal: there is no {text!r}", hint=did_you_mean(name, usable))


def _commands_of_writes(settings: RestartSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of `load` and `verify`; none of either. Raises UsageError for one alone."""
    words = []
    for key, command in (("load", settings.load), ("verify", settings.verify)):
        try:
            split = shlex.split(command) if isinstance(command, str) else list(command or ())
        except ValueError as error:
            raise UsageError(f"{key}: {error}", hint="close the quotation") from error
        if command is not None and not split:
            raise UsageError(f"{key}: the command is empty", hint="name a program")
        words.append(tuple(split))
    load, verify = words
    if bool(load) is not bool(verify):
        missing = "verify" if load else "load"
        raise UsageError(
            f"restart-check: `{missing}` is missing",
            hint="`load` prints what was acknowledged, and `verify` what is lost of it: name both",
        )
    return load, verify


def _killed(request: RestartRequest, names: tuple[str, ...], order: tuple[str, ...]) -> str:
    kill = request.settings.kill
    if kill is None:
        return names[-1]
    if kill not in order:
        where = f"{request.origins['kill']}: " if "kill" in request.origins else ""
        raise UsageError(
            f"{where}kill = {kill!r} is none of the services that are started",
            hint=did_you_mean(kill, order),
        )
    return kill


# A start that is not ready so few seconds before the budget ends was not ready because of it.
_CLOSE_S = 0.5


def observe(
    plan: RestartPlan, interruption: Interruption, on_progress: Callable[[RestartProgress], None]
) -> Observation:
    """Make the check, and return what was observed.

    Ends by itself at the deadline and on a signal, with no process left. `interruption` is handling
    signals. Raises UsageError and InfraError as `start_group` and `ask` do.
    """
    with asyncio.Runner() as runner:
        return runner.run(_to_the_end(plan, interruption, on_progress))


async def _to_the_end(
    plan: RestartPlan, interruption: Interruption, on_progress: Callable[[RestartProgress], None]
) -> Observation:
    notes = Notes(len(plan.requests), on_progress, compare=plan.terms.same_outputs)
    notes.note(prompts=count_prompts(plan.requests))
    ending = RestartEnding.COMPLETE
    try:
        with interruption.watch():
            async with asyncio.timeout(plan.deadline - clock.now()):
                if await _controls(plan, notes):
                    await _with_services(plan, notes)
    except TimeoutError:
        ending = RestartEnding.BUDGET
    except asyncio.CancelledError:
        # Without a signal it was the caller who cancelled, and who must learn that it worked.
        if interruption.received is None:
            raise
    # A signal counts even if the check was complete by then: its sender waits for no verdict.
    if interruption.received is not None:
        ending = RestartEnding(interruption.received.name)
    return notes.observation(ending)


async def _controls(plan: RestartPlan, notes: Notes) -> bool:
    """Start everything, ask and stop it, `control_starts` times; whether the check can go on.

    One that has no time for the check itself after another control start makes fewer. What is then
    not known is no broken promise.
    """
    longest_s = 0.0
    notes.phase = Phase.CONTROL
    for number in range(1, plan.terms.control_starts + 1):
        began = clock.now()
        # The start that is killed, its relaunch, and the load for each.
        needed_s = longest_s + 3 * longest_s + plan.outage_s
        if plan.deadline - began < needed_s:
            notes.say(
                f"{number - 1} of {plan.terms.control_starts} control starts: the budget is short"
            )
            break
        if not await _one_control(plan, notes, number):
            return False
        longest_s = max(longest_s, clock.now() - began)
    notes.phase = Phase.BASELINE
    return True


async def _one_control(plan: RestartPlan, notes: Notes, number: int) -> bool:
    context = structs.replace(
        plan.context,
        log_directory=_control_directory(plan, number),
        limit_s=plan.deadline - clock.now(),
    )
    launched = await start_group(plan.request.specs, plan.names, context, notes.event)
    if isinstance(launched, ServiceFailure):
        notes.note(failures=(launched,), failed_in=Phase.CONTROL)
        return False
    try:
        sender = Sender(
            base_url=launched.endpoint.base_url,
            concurrency=plan.settings.concurrency,
            timeout_s=plan.terms.request_timeout_s,
            waits=all_waits(launched.living_pids),
        )
        notes.ledger.begin_control()
        answered = notes.ledger.ok(Phase.CONTROL)
        keep = functools.partial(notes.ledger.keep, Phase.CONTROL)
        seconds_spent = await one_pass(sender, plan.requests, keep)
        answered = notes.ledger.ok(Phase.CONTROL) - answered
        notes.ledger.passed(Phase.CONTROL, answered, seconds_spent)
        notes.say(f"start {number}: {answered} of {len(plan.requests)} requests answered")
        if launched.failures:
            notes.note(failures=tuple(launched.failures), failed_in=Phase.CONTROL)
        return not launched.failures
    finally:
        stopped = await launched.stop(grace_s=plan.grace_s)
        if stopped.survivors:
            notes.note(stopped=stopped)


def _control_directory(plan: RestartPlan, number: int) -> Path:
    return plan.context.log_directory / f"control-{number}"


def control_logs(plan: RestartPlan) -> tuple[Path, ...]:
    """The logs of the services in the control starts. Reads files."""
    folders = [_control_directory(plan, each) for each in range(1, plan.terms.control_starts + 1)]
    return tuple(log for folder in folders for log in sorted(folder.glob("*.log")))


async def _with_services(plan: RestartPlan, notes: Notes) -> None:
    context = structs.replace(plan.context, limit_s=plan.deadline - clock.now())
    if plan.settings.gpu_memory:
        # Before the first start: what is in use now is not the services'.
        notes.gpu_before = read_gpu_memory()
    launched = await start_group(plan.request.specs, plan.names, context, notes.event)
    if isinstance(launched, ServiceFailure):
        is_late = clock.now() >= plan.deadline - _CLOSE_S
        if launched.kind is FailureKind.NOT_READY and is_late:
            raise TimeoutError
        notes.note(failures=(launched,), failed_in=Phase.BASELINE)
        return
    try:
        await Phases(plan, launched, notes).all()
    except FailedError:
        notes.note(failures=tuple(launched.failures), failed_in=notes.phase)
    finally:
        # Also after an error or a cancellation: no process may be left.
        notes.note(stopped=await launched.stop(grace_s=plan.grace_s))


def run(
    plan: RestartPlan,
    *,
    redactor: Redactor,
    interruption: Interruption | None = None,
    on_progress: Callable[[RestartProgress], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Kill the service under load, start it again, check what was promised, and judge.

    No process is left, however it ends. Logs lie in `plan.directory`/logs, without the secrets that
    `redactor` knows. `interruption` is handling signals already; without one, signals are handled
    here. Raises UsageError and InfraError as `start_group` and `ask` do.
    """
    starts = Starts()

    def note(progress: RestartProgress) -> None:
        if progress.event is not None and progress.phase is not Phase.CONTROL:
            starts.add(progress.event)
        on_progress(progress)

    with contextlib.ExitStack() as stack:
        if interruption is None:
            interruption = Interruption()
            stack.enter_context(interruption.handling())
        try:
            observation = observe(plan, interruption, note)
        finally:  # whatever has ended it
            logs = [Path(start.log) for start in starts.runs if start.log is not None]
            logs += [*control_logs(plan), *logs_of(plan)]
            for warning in redact_files(logs, redactor):
                on_warning(warning)
    return outcome_of(
        observation, plan.terms, starts.runs, directory=plan.directory, cwd=Path.cwd()
    )


def would_do(plan: RestartPlan) -> Outcome:
    """What would be started and killed, and nothing done."""
    rows = [row(name, shlex.join(plan.request.specs[name].words())) for name in plan.order]
    for name, words in (("load", plan.load), ("verify", plan.verify)):
        if words:
            rows.append(row(name, shlex.join(words)))
    when = (
        f"when {plan.kill_when_done} of {len(plan.requests)} requests to {plan.names[-1]} are done"
    )
    if not plan.requests:
        when = f"after {plan.terms.acknowledged} acknowledged writes"
    first = ""
    if plan.terms.control_starts:
        first = f"start everything {amount(plan.terms.control_starts, 'time')} as a control, then "
    return Outcome(
        verdict=None,
        summary=(
            f"would {first}send {plan.signal.name} to {plan.terms.kill} {when}, and start it again "
            f"{plan.outage_s:g} s after its end"
        ),
        tables=(Table(title="Services", rows=tuple(rows)),),
    )

# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: a whole check, from its request to its outcome."""

import asyncio
import contextlib
import functools
import hashlib
import shlex
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from ci_doctor.config.decoding import seconds_above_zero, seconds_of
from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.load.looks import count_prompts
from ci_doctor.load.requests import Request, read_requests
from ci_doctor.machine.gpus import check_gpu_library, read_gpu_memory
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure
from ci_doctor.model.facts.restart_check import (
    Moment,
    Observation,
    Phase,
    RestartCell,
    RestartCheckFacts,
    RestartEnding,
    RestartSweepFacts,
    Terms,
)
from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Case,
    Finding,
    Outcome,
    Table,
    Verdict,
    row,
    seconds,
    worst,
)
from ci_doctor.model.words import did_you_mean
from ci_doctor.render.formatting import amount
from ci_doctor.restart.answers import Notes, RestartProgress
from ci_doctor.restart.phases import FailedError, Phases
from ci_doctor.restart.promises import State
from ci_doctor.restart.report import outcome_of
from ci_doctor.restart.settings import (
    RestartPlan,
    RestartRequest,
    RestartSettings,
    check_conditions,
    plan_condition,
)
from ci_doctor.restart.traffic import SETUP_LOG, logs_of, one_pass, sender_of, start_command
from ci_doctor.services.check import check_command, check_scripts, check_services
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import Starts
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, reserve_of
from ci_doctor.system import clock
from ci_doctor.system.files.access import make_directory, write_atomically
from ci_doctor.system.processes.interruption import Interruption, end_awaited
from ci_doctor.system.processes.process import describe_exit
from ci_doctor.system.secrets.redaction import Redactor, redact_files
from ci_doctor.version import tool_version

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


CELLS = "cells"
_LEAST_THROUGHPUT = 0.8


def make_plans(request: RestartRequest) -> tuple[RestartPlan, ...]:
    """A plan for each moment and signal, the signals of a moment one after the other.

    Checks everything before anything is started. Raises UsageError for what cannot work.
    """
    settings = request.settings
    moments = [read_moment(each) for each in _listed(settings.moment)]
    signals = [read_signal(each) for each in _listed(settings.signal)]
    pairs = [(moment, number) for moment in moments for number in signals]
    for key, values in (("moment", moments), ("signal", signals)):
        if not values or len(set(values)) < len(values):
            raise UsageError(f"{key}: names nothing, or one twice", hint="name each once")
    if Moment.SAVING in moments and settings.saving is None:
        raise UsageError(
            "moment: nothing tells when the service saves",
            hint='saving = { log = "checkpoint starting" }, or another probe: file, exec, http',
        )
    if len(pairs) == 1:
        return (make_plan(request, *pairs[0]),)
    plans = []
    for moment, number in pairs:
        place = request.directory / CELLS / f"{moment}-{number.name}"
        plan = make_plan(structs.replace(request, directory=place), moment, number)
        plans.append(structs.replace(plan, title=f"{moment} {number.name}"))
    return tuple(plans)


def _listed(written: str | list[str]) -> list[str]:
    return [written] if isinstance(written, str) else written


def read_moment(text: str) -> Moment:
    """A moment by its name. Raises UsageError."""
    if text in set(Moment):
        return Moment(text)
    hint = did_you_mean(text, tuple(Moment))
    raise UsageError(f"moment: there is no {text!r}", hint=hint or f"use {', '.join(Moment)}")


def make_plan(request: RestartRequest, moment: Moment, ended_by: signal.Signals) -> RestartPlan:
    """The plan of one restart. Raises UsageError as `make_plans`."""
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
    load, verify, client, setup = _commands(settings)
    commands = {"setup": setup, "client": client, "load": load, "verify": verify}
    for key, words in commands.items():
        # `setup` may make what the others run.
        if words and (key == "setup" or not setup):
            check_command(key, words, context.environment, context.directory)
    requests = () if request.requests is None else read_requests(request.requests)
    if client:
        requests = tuple(_run_of(client, number) for number in range(1, settings.runs + 1))
    usual = 0.0 if client else _LEAST_THROUGHPUT
    budget_s = seconds_above_zero(settings.budget, "budget")
    reserve_s = reserve_of(budget_s)
    # With `same_outputs` a difference is a broken promise anyway; without requests there is none.
    has_controls = requests and not settings.same_outputs
    plan = RestartPlan(
        request=request,
        context=context,
        terms=Terms(
            kill=_killed(request, names, order),
            signal=ended_by.name,
            moment=moment,
            stop_signal=read_signal(settings.stop_signal, "stop_signal").name,
            by_command=bool(client),
            request_timeout_s=seconds_above_zero(settings.request_timeout, "request_timeout"),
            release_timeout_s=seconds_of(settings.release_timeout, "release_timeout"),
            recovery_timeout_s=seconds_above_zero(settings.recovery_timeout, "recovery_timeout"),
            # The rate of commands is how fast the machine starts processes.
            throughput=usual if settings.throughput is None else settings.throughput,
            same_outputs=settings.same_outputs,
            control_starts=settings.control_starts if has_controls else 0,
            acknowledged=settings.acknowledged if load else 0,
        ),
        names=names,
        order=order,
        moment=moment,
        signal=ended_by,
        stop_signal=read_signal(settings.stop_signal, "stop_signal"),
        requests=requests,
        load=load,
        verify=verify,
        client=client,
        setup=setup,
        outage_s=seconds_of(settings.outage, "outage"),
        conditions=tuple(conditions),
        deadline=request.started + budget_s - reserve_s,
        # Of the reserve, because SIGKILL, the logs and the report come after the grace.
        grace_s=min(5.0, reserve_s / 3),
    )
    # Last, because a probe can only be checked with the placeholders of all services.
    check_conditions(plan)
    return plan


def read_signal(text: str, key: str = "signal") -> signal.Signals:
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
        raise UsageError(f"{key}: {name} does not end a process", hint='use "SIGKILL" or "SIGTERM"')
    raise UsageError(f"{key}: there is no {text!r}", hint=did_you_mean(name, usable))


def _run_of(client: Sequence[str], number: int) -> Request:
    """One run of the command `client`. What is asked is the command, with its own number."""
    asked = " ".join(client).replace("{run}", str(number))
    return Request(id=str(number), path="", body={"prompt": asked}, line=number)


def _commands(settings: RestartSettings) -> tuple[tuple[str, ...], ...]:
    """The words of `load`, `verify`, `client` and `setup`; none of what is not set.

    Raises UsageError for `load` or `verify` alone, and for `client` beside requests.
    """
    words = []
    for key in ("load", "verify", "client", "setup"):
        command = getattr(settings, key)
        try:
            split = shlex.split(command) if isinstance(command, str) else list(command or ())
        except ValueError as error:
            raise UsageError(f"{key}: {error}", hint="close the quotation") from error
        if command is not None and not split:
            raise UsageError(f"{key}: the command is empty", hint="name a program")
        words.append(tuple(split))
    load, verify, client, setup = words
    if client and settings.requests is not None:
        raise UsageError(
            "restart-check: `client` stands beside `requests`", hint="leave one of them out"
        )
    if bool(load) is not bool(verify):
        missing = "verify" if load else "load"
        raise UsageError(
            f"restart-check: `{missing}` is missing",
            hint="`load` prints what was acknowledged, and `verify` what is lost of it: name both",
        )
    return load, verify, client, setup


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
                if await _set_up(plan, notes) and await _controls(plan, notes):
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


async def _set_up(plan: RestartPlan, notes: Notes) -> bool:
    """Run the command `setup`, if there is one; whether it made the state that is wanted."""
    if not plan.setup:
        return True
    notes.phase = Phase.CONTROL
    logs = plan.context.log_directory
    make_directory(logs)
    # A group without services: nothing of the command outlives it.
    group = RunningGroup((), notes.event)
    try:
        with (logs / SETUP_LOG).open("wb") as output:
            streams = (None, output.fileno(), output.fileno())
            child = start_command(plan, group, "setup", plan.setup, streams=streams)
        with end_awaited(child.pidfd) as ended:
            await ended
        code = child.wait()
    finally:
        await group.stop(grace_s=plan.grace_s)
    notes.phase = Phase.BASELINE
    if code == 0:
        return True
    end = "in a way that nobody saw" if code is None else describe_exit(code)
    notes.note(unreached=f"`setup` ended: {end} (see {logs / SETUP_LOG})")
    return False


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
        sender = sender_of(plan, launched)
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
        observation, plan.terms, starts.runs, directory=report_directory(plan), cwd=Path.cwd()
    )


def report_directory(plan: RestartPlan) -> Path:
    """Where the report lies: above the folders of a sweep's restarts."""
    return plan.directory.parents[1] if plan.title else plan.directory


_WHEN = {
    Moment.BEFORE_READY: "during a start, after {at:g} of its usual time",
    Moment.SAVING: "when `saving` holds",
    Moment.STOPPING: "during an orderly stop, after {at:g} of its usual time",
}


def would_do(plans: Sequence[RestartPlan]) -> Outcome:
    """What would be started and killed, and nothing done."""
    plan = plans[0]
    rows = [row(name, shlex.join(plan.request.specs[name].words())) for name in plan.order]
    for name in ("setup", "client", "load", "verify"):
        words = getattr(plan, name)
        rows += [row(name, shlex.join(words))] if words else []
    services = Table(title="Services", rows=tuple(rows))
    if len(plans) > 1:
        titles = ", ".join(each.title for each in plans)
        summary = f"would restart {plan.terms.kill} {len(plans)} times: {titles}"
        return Outcome(verdict=None, summary=summary, tables=(services,))
    when = _WHEN.get(plan.moment, "").format(at=plan.settings.at)
    if not when and plan.requests:
        when = f"when {plan.kill_when_done} of {len(plan.requests)} requests to {plan.names[-1]} are done"
    when = when or f"after {plan.terms.acknowledged} acknowledged writes"
    first = ""
    if plan.terms.control_starts:
        first = f"start everything {amount(plan.terms.control_starts, 'time')} as a control, then "
    return Outcome(
        verdict=None,
        summary=(
            f"would {first}send {plan.signal.name} to {plan.terms.kill} {when}, and start it again "
            f"{plan.outage_s:g} s after its end"
        ),
        tables=(services,),
    )


# --- one restart for each moment and signal, and what all of them come to ---


_FILE = "cell.json"
# What an earlier run has settled; anything else is tried again.
_SETTLED = frozenset({Verdict.PASS, Verdict.FAILED})


class _Stored(Struct, frozen=True, kw_only=True):
    """One restart as it lies in its folder. `key` identifies what was checked."""

    key: str
    cell: RestartCell
    findings: tuple[Finding, ...] = ()
    cases: tuple[Case, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    attachments: tuple[Attachment, ...] = ()


def run_all(
    plans: Sequence[RestartPlan],
    *,
    redactor: Redactor,
    interruption: Interruption,
    resume: bool = False,
    on_progress: Callable[[RestartProgress], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Make the restart of each plan, one after the other, and judge them together.

    One plan alone is reported as `run` does. `resume` keeps what an earlier run in the same directory has
    settled. `interruption` is handling signals. Raises UsageError as `run`; what it raises else is the verdict
    of one restart.
    """
    make = functools.partial(
        run, redactor=redactor, interruption=interruption, on_warning=on_warning
    )
    if len(plans) == 1:
        return make(plans[0], on_progress=on_progress)
    stored: list[_Stored] = []
    longest_s = 0.0
    if not resume:
        _forget(plans)
    for plan in plans:
        key = _key(plan)
        each = _read(plan, key) if resume else None
        if each is None and plan.deadline - clock.now() <= longest_s:
            each = _not_begun(plan, key)
        if each is None:
            began = clock.now()

            def note(progress: RestartProgress, title: str = plan.title) -> None:
                on_progress(structs.replace(progress, title=title))

            outcome = _made(functools.partial(make, plan, on_progress=note))
            longest_s = max(longest_s, clock.now() - began)
            if outcome.verdict is None:
                # A signal, or a command that cannot be run: the others would end in the same way.
                return structs.replace(
                    _together(stored), verdict=None, summary=outcome.summary, error=outcome.error
                )
            each = redactor.value(_stored(plan, key, outcome))
        write_atomically(plan.directory / _FILE, msgspec.json.encode(each))
        stored.append(each)
    return _together(stored)


def _made(make: Callable[[], Outcome]) -> Outcome:
    """What the machine prevents is the verdict of one restart; the next may be possible."""
    try:
        return make()
    except InfraError as error:
        return Outcome(verdict=Verdict.INFRA, summary=error.message)


def _forget(plans: Sequence[RestartPlan]) -> None:
    """At once: a run may be cut short, and what an older one has settled is not its own."""
    for plan in plans:
        (plan.directory / _FILE).unlink(missing_ok=True)


def _key(plan: RestartPlan) -> str:
    """What identifies a restart: a run goes on only with what was checked under the same settings."""
    settings = structs.replace(plan.settings, budget="", moment="", signal="")
    specs = [(name, plan.request.specs[name]) for name in plan.order]
    parts = (tool_version(), plan.title, settings, specs, plan.requests)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _read(plan: RestartPlan, key: str) -> _Stored | None:
    """The restart that an earlier run has settled; None if it must be made."""
    try:
        stored = msgspec.json.decode((plan.directory / _FILE).read_bytes(), type=decodable(_Stored))
    except (OSError, msgspec.MsgspecError):
        return None
    if stored.key != key or stored.cell.verdict not in _SETTLED:
        return None
    return structs.replace(stored, cell=structs.replace(stored.cell, kept=True))


def _not_begun(plan: RestartPlan, key: str) -> _Stored:
    summary = "the budget left no time for it"
    return _stored(plan, key, Outcome(verdict=Verdict.INCONCLUSIVE, summary=summary))


def _stored(plan: RestartPlan, key: str, outcome: Outcome) -> _Stored:
    facts = outcome.facts
    assert outcome.verdict is not None  # noqa: S101 - the caller has looked
    title = plan.title
    return _Stored(
        key=key,
        cell=RestartCell(
            moment=plan.moment,
            signal=plan.signal.name,
            verdict=outcome.verdict,
            summary=outcome.summary,
            restart=facts if isinstance(facts, RestartCheckFacts) else None,
        ),
        findings=tuple(
            structs.replace(each, summary=f"{title}: {each.summary}") for each in outcome.findings
        ),
        cases=tuple(structs.replace(each, group=f"{each.group} {title}") for each in outcome.cases),
        attempts=tuple(
            structs.replace(each, name=f"{title}: {each.name}") for each in outcome.attempts
        ),
        attachments=tuple(
            structs.replace(each, title=f"{title}: {each.title}") for each in outcome.attachments
        ),
    )


def _together(stored: Sequence[_Stored]) -> Outcome:
    """The worst verdict, a row for each restart, and everything that was found in one of them."""
    cells = tuple(each.cell for each in stored)
    verdict = Verdict(worst(cell.verdict for cell in cells))
    bad = [cell for cell in cells if cell.verdict is verdict]
    summary = f"all of {len(cells)} restarts kept every promise that was checked"
    if bad and verdict is not Verdict.PASS:
        counts = Counter(cell.verdict.value for cell in cells)
        counted = ", ".join(f"{number} {word}" for word, number in counts.items())
        summary = f"of {len(cells)} restarts {counted}; {_name(bad[0])}: {bad[0].summary}"
    return Outcome(
        verdict=verdict,
        summary=summary,
        findings=tuple(finding for each in stored for finding in each.findings),
        tables=(_table(cells),),
        facts=RestartSweepFacts(cells=cells),
        cases=tuple(case for each in stored for case in each.cases),
        attempts=tuple(attempt for each in stored for attempt in each.attempts),
        attachments=tuple(attachment for each in stored for attachment in each.attachments),
    )


def _name(cell: RestartCell) -> str:
    return f"{cell.moment} {cell.signal}"


def _table(cells: Sequence[RestartCell]) -> Table:
    rows = []
    for cell in cells:
        down_s = None if cell.restart is None else cell.restart.down_s
        promises = {} if cell.restart is None else cell.restart.promises
        broken = [key for key, state in promises.items() if state == State.BROKEN]
        why = ", ".join(broken) or ("" if cell.verdict is Verdict.PASS else cell.summary)
        checked = sum(state != State.UNTESTED for state in promises.values())
        rows.append(row(_name(cell), cell.verdict.value, checked, seconds(down_s), why))
    return Table(
        title="Restarts", columns=("verdict", "checked", "down", "broken"), rows=tuple(rows)
    )

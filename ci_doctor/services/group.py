# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts a group of services, each when what it needs is ready."""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from ci_doctor.errors import UsageError
from ci_doctor.machine.gpus import read_gpu_memory
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure, StopResult
from ci_doctor.services import failure_cause
from ci_doctor.services.busy_timeout import BusyTimeout, before_death
from ci_doctor.services.check import check_services
from ci_doctor.services.failure_cause import with_cause_elsewhere
from ci_doctor.services.instance import Instance, RunningService, ServiceEvent
from ci_doctor.services.leak_ledger import TEMPORARY, LeakLedger, LeakPolicy
from ci_doctor.services.logs import open_log
from ci_doctor.services.ports import is_local, owner_of
from ci_doctor.services.probe import wait_until_ready
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import FilledSpec, LaunchContext, ServiceSpec, fill_spec, port_names
from ci_doctor.system import clock
from ci_doctor.system.processes.process_table import look_up

# fork(2) and open(2): the machine has none left, whatever the command is.
EXHAUSTED = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})


async def start_service(
    group: RunningGroup,
    name: str,
    spec: ServiceSpec,
    context: LaunchContext,
    time_limit: BusyTimeout,
) -> None:
    """Start `name` and wait until it is ready; a failure goes to the group.

    Raises UsageError if the command cannot be run at all, and either error as `open_log`.
    """
    filled = fill_spec(spec, context, group.ports, name)
    # Again, since a fixed port may have got an owner while this service waited for others.
    instance: Instance | ServiceFailure | None = cannot_start(name, spec, filled, time_limit)
    if instance is None:
        instance = _launch(group, name, spec, filled, context)
    if isinstance(instance, ServiceFailure):
        group.fail(instance)
        return
    # A death ends the wait: a service that needs a dead one never becomes ready.
    (probe,) = await before_death(group.death, _probe(group, instance, time_limit))
    if group.death.done():
        return
    problem = probe.result()
    if problem is not None:
        group.fail(group.not_ready(instance, problem))
        return
    # Only after a good answer, because looking through all sockets of the machine is slow.
    owner = failure_cause.older_listener(filled.probe, instance.process.pid, group.tree.living)
    if owner is not None:
        group.fail(failure_cause.answered_by_another(instance.subject(clock.now()), owner))
        return
    group.mark_ready(name)


def cannot_start(
    name: str, spec: ServiceSpec, filled: FilledSpec, time_limit: BusyTimeout
) -> ServiceFailure | None:
    """Why the service is not even to be started: no time, or its fixed port has an owner."""
    if time_limit.limit_s <= 0:
        return failure_cause.never_started(name, FailureKind.NOT_READY, "no time is left")
    # A reserved port was free a moment ago; a fixed one may have had an owner for days.
    if not spec.has_fixed_port() or not is_local(filled.probe.host):
        return None
    owner = owner_of(filled.probe.port)
    if owner is None:
        return None
    return failure_cause.port_taken(name, owner)


async def _probe(group: RunningGroup, instance: Instance, time_limit: BusyTimeout) -> str | None:
    problem = await wait_until_ready(
        instance.filled.probe,
        time_limit,
        group.probe_context(instance),
        on_answer=instance.note_answer,
    )
    # One that goes into the background is ready only once it is known which process to watch.
    if problem is not None or instance.filled.pidfile is None:
        return problem
    if instance.following is None:  # it stays in the foreground: its own process is watched
        return None
    if await time_limit.wait(instance.following):
        return None
    return f"{instance.filled.pidfile} names no process that it has started"


def _launch(
    group: RunningGroup, name: str, spec: ServiceSpec, filled: FilledSpec, context: LaunchContext
) -> Instance | ServiceFailure:
    log, output = open_log(context.log_directory, name)
    try:
        child = group.launch(
            filled.words,
            environment=filled.env,
            directory=filled.cwd,
            output=output,
            stop_words=filled.stop_words or None,
        )
    except OSError as error:
        # Nobody could start anything here, so it says nothing about this command.
        if error.errno in EXHAUSTED:
            why = f"{error.strerror} (on this machine)"
            return failure_cause.never_started(name, FailureKind.OUTSIDE, why)
        hint = "is it made for this machine, and does a script begin with #! and its interpreter?"
        message = f'service "{name}": cannot run {filled.words[0]}: {error.strerror}'
        raise UsageError(message, hint=hint) from error
    finally:
        os.close(output)
    # It may have ended already, and been reaped by the guardian.
    kin = look_up(child.pid)
    earlier = group.instances.get(name)
    service = RunningService(
        name=name,
        pid=child.pid,
        started=0 if kin is None else kin.started,
        start=1 if earlier is None else earlier.service.start + 1,
        probe=filled.probe,
        port=filled.port,
        log=log,
        command=filled.words,
    )
    instance = Instance(service, spec, filled, child)
    group.add(instance)
    return instance


async def start_group(
    specs: Mapping[str, ServiceSpec],
    names: Sequence[str],
    context: LaunchContext,
    on_event: Callable[[ServiceEvent], None],
) -> RunningGroup | ServiceFailure:
    """Start `names` and what they need, each as soon as what it needs is ready.

    A failure is a value: the first of the group, with its consequences, and everything that was
    started is stopped then. A cancellation stops everything too. Raises UsageError as
    `check_services` does and if a command cannot be run at all, and either error as `open_log`.
    """
    order = check_services(specs, names, context)
    further = port_names(specs, order)[len(order) :]
    group = RunningGroup(order, on_event, further)
    try:
        await _start_all(group, specs, order, context)
        if not group.death.done():
            return group
        # Raises what a callback has raised.
        group.death.result()
        stopped = await group.stop(grace_s=context.grace_s)
    except asyncio.CancelledError:
        # The agent gives us 10 s in all, and nobody is left to read what is still held.
        await group.stop(grace_s=context.grace_s, in_haste=True)
        raise
    # A KeyboardInterrupt too: no process may be left behind by an error of ours.
    except BaseException:
        group.kill_now()
        raise
    failure = root_cause(group.failures, stopped)
    return with_cause_elsewhere(failure, group.instances.values())


def root_cause(failures: Sequence[ServiceFailure], stopped: StopResult) -> ServiceFailure:
    """The first failure, with what followed from it."""
    first, *others = failures
    consequences = tuple(failure.message for failure in others)
    return structs.replace(first, consequences=consequences, stopped=stopped)


async def _start_all(
    group: RunningGroup,
    specs: Mapping[str, ServiceSpec],
    order: Sequence[str],
    context: LaunchContext,
) -> None:
    """Returns when all are ready or one has failed; what a start raises is raised."""
    deadline = None if context.limit_s is None else clock.now() + context.limit_s
    failed = _prepare(group, specs, context, deadline)
    if failed is not None:
        group.fail(failed)
        return
    ready = {name: asyncio.Event() for name in order}

    async def start(name: str, deadline: float | None = None) -> None:
        if group.death.done():
            return
        # Of the group's time, the waits for others have used up a part.
        time_limit = _time_limit(group, specs[name], deadline)
        await start_service(group, name, specs[name], context, time_limit)
        ready[name].set()

    async def start_first(name: str) -> None:
        for needed in specs[name].needs:
            await ready[needed].wait()
        await start(name, deadline)

    # A later start of a service has no part in the deadline of the group's own.
    group.starter = start
    for started in await before_death(group.death, *map(start_first, order)):
        if not started.cancelled():
            started.result()


def _prepare(
    group: RunningGroup,
    specs: Mapping[str, ServiceSpec],
    context: LaunchContext,
    deadline: float | None,
) -> ServiceFailure | None:
    """Look at the machine before the first start; why it is futile to start anything.

    A fixed port has an owner, or no time is left.
    """
    filled = {name: fill_spec(specs[name], context, group.ports, name) for name in group.names}
    for name, each in filled.items():
        failed = cannot_start(name, specs[name], each, _time_limit(group, specs[name], deadline))
        if failed is not None:
            return failed
    group.ledger = _ledger(specs, filled, context)
    # What the services take is the difference.
    if any("gpu-memory" in specs[name].released for name in filled):
        group.gpu_memory_before = read_gpu_memory()
    return None


def _time_limit(group: RunningGroup, spec: ServiceSpec, deadline: float | None) -> BusyTimeout:
    own_s = spec.start_timeout_s()
    if deadline is None:
        return BusyTimeout(own_s, group.living_pids)
    left_s = deadline - clock.now()
    # A busy machine extends the service's own time, and never that of the whole group.
    return BusyTimeout(min(own_s, left_s), group.living_pids, hard_limit_s=left_s)


def _ledger(
    specs: Mapping[str, ServiceSpec], filled: Mapping[str, FilledSpec], context: LaunchContext
) -> LeakLedger:
    policies = {}
    for name, each in filled.items():
        temporary = each.env.get("TMPDIR") or TEMPORARY
        policies[name] = LeakPolicy(
            mode=specs[name].leaks,
            allowed=tuple(specs[name].leaks_allowed),
            temporary=temporary,
            is_own=temporary not in {context.environment.get("TMPDIR"), TEMPORARY},
        )
    return LeakLedger(policies, (str(context.log_directory), str(context.directory)))

# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts one service of a group and waits until it is ready."""

import asyncio
import errno
import os

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.services import failure_cause
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.instance import Instance, RunningService
from ci_doctor.services.logs.files import open_log
from ci_doctor.services.ports import is_local, owner_of
from ci_doctor.services.probes.probe import wait_until_ready
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import FilledSpec, LaunchContext, ServiceSpec, fill_spec
from ci_doctor.system import clock
from ci_doctor.system.processes.process import Child
from ci_doctor.system.processes.process_table import look_up

# fork(2) and open(2): the machine has none left, whatever the command is.
EXHAUSTED = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})


class StartLimit(Struct, frozen=True, kw_only=True):
    """The seconds that a start has to become ready.

    Time in which it waits for a CPU does not count towards `seconds`. It does towards `hard_s`,
    what the group as a whole has left; None if that has no limit.
    """

    seconds: float
    hard_s: float | None = None


async def start_service(
    group: RunningGroup, name: str, spec: ServiceSpec, context: LaunchContext, limit: StartLimit
) -> None:
    """Start `name` and wait until it is ready; a failure goes to the group.

    Raises UsageError if the command cannot be run at all, and either error as `open_log`.
    """
    filled = fill_spec(spec, context, group.ports, name)
    # From before the launch: the guardian's fork waits for a CPU too.
    time_limit = BusyTimeout(limit.seconds, group.living_pids, hard_limit_s=limit.hard_s)
    # Again, since a fixed port may have got an owner while this service waited for others.
    instance: Instance | ServiceFailure | None = cannot_start(name, spec, filled, limit)
    if instance is None:
        instance = _launch(group, name, spec, filled, context)
    if isinstance(instance, ServiceFailure):
        group.fail(instance)
        return
    problem = await _ready_or_dead(group, instance, time_limit)
    if group.death.done():
        return
    if problem is not None:
        group.fail(failure_cause.not_ready(instance.subject(clock.now()), problem))
        return
    # Only after a good answer, because looking through all sockets of the machine is slow.
    owner = failure_cause.older_listener(filled.probe, instance.process.pid, group.tree)
    if owner is not None:
        group.fail(failure_cause.answered_by_another(instance.subject(clock.now()), owner))
        return
    group.mark_ready(name)


def cannot_start(
    name: str, spec: ServiceSpec, filled: FilledSpec, limit: StartLimit
) -> ServiceFailure | None:
    """Why the service is not even to be started: no time, or its fixed port has an owner."""
    if limit.seconds <= 0:
        return failure_cause.never_started(name, FailureKind.NOT_READY, "no time is left")
    # A reserved port was free a moment ago; a fixed one may have had an owner for days.
    if not spec.has_fixed_port() or not is_local(filled.probe.host):
        return None
    owner = owner_of(filled.probe.port)
    if owner is None:
        return None
    return failure_cause.never_started(name, FailureKind.OUTSIDE, owner.describe())


async def _ready_or_dead(
    group: RunningGroup, instance: Instance, time_limit: BusyTimeout
) -> str | None:
    """None when ready, or when a death came first; else what was wrong when time was up."""
    probe = asyncio.create_task(_probe(group, instance, time_limit))
    # A death ends the wait: a service that needs a dead one never becomes ready.
    group.death.add_done_callback(lambda _: probe.cancel())
    try:
        await asyncio.wait({probe})
    finally:
        probe.cancel()
    if probe.cancelled():
        return None
    return probe.result()


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
        child = _spawn(group, filled, output)
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
    started = 0
    if kin is not None:
        started = kin.started
    start = 1
    if name in group.instances:
        start = group.instances[name].service.start + 1
    service = RunningService(
        name=name,
        pid=child.pid,
        started=started,
        start=start,
        probe=filled.probe,
        port=filled.port,
        log=log,
        command=filled.words,
    )
    instance = Instance(service, spec, filled, child)
    group.add(instance)
    return instance


def _spawn(group: RunningGroup, filled: FilledSpec, output: int) -> Child:
    return group.launch(
        filled.words,
        environment=filled.env,
        directory=filled.cwd,
        output=output,
        stop_words=filled.stop_words or None,
    )

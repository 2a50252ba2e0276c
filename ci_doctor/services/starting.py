# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts one service of a group and waits until it is ready."""

import asyncio
import errno
import os

from ci_doctor.errors import UsageError
from ci_doctor.services import failure
from ci_doctor.services.instance import Instance, RunningService
from ci_doctor.services.logs.files import open_log
from ci_doctor.services.outcome import FailureKind, ServiceFailure
from ci_doctor.services.ports import is_local, owner_of
from ci_doctor.services.probes.probe import wait_until_ready
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import FilledSpec, LaunchContext, ServiceSpec, fill_spec
from ci_doctor.system import clock
from ci_doctor.system.processes.process_table import look_up

# fork(2) and open(2): the machine has none left, whatever the command is.
EXHAUSTED = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})


async def start_service(
    group: RunningGroup, name: str, spec: ServiceSpec, context: LaunchContext, limit_s: float
) -> None:
    """Start `name` and wait until it is ready; what goes wrong is told to the group.

    Raises UsageError where the command cannot be run at all, and either error as `open_log`.
    """
    filled = fill_spec(spec, context, group.ports, name)
    began = clock.now()
    instance = cannot_start(name, spec, filled, limit_s) or _launch(
        group, name, spec, filled, context
    )
    if isinstance(instance, ServiceFailure):
        group.fail(instance)
        return
    seen = await _ready_or_dead(group, instance, began + limit_s)
    if group.death.done():
        return
    if seen is not None:
        group.fail(failure.not_ready(instance.subject(clock.now()), seen))
    elif owner := failure.impostor(filled.probe, instance.process.pid, group.tree):
        group.fail(failure.answered_by_another(instance.subject(clock.now()), owner))
    else:
        group.mark_ready(name)


def cannot_start(
    name: str, spec: ServiceSpec, filled: FilledSpec, limit_s: float
) -> ServiceFailure | None:
    """Why the service is not even to be started: no time, or its fixed port has an owner."""
    if limit_s <= 0:
        return failure.never_started(name, FailureKind.NOT_READY, "no time is left")
    # A reserved port was free a moment ago; a fixed one may have had an owner for days.
    if (
        spec.has_fixed_port()
        and is_local(filled.probe.host)
        and (owner := owner_of(filled.probe.port))
    ):
        return failure.never_started(name, FailureKind.OUTSIDE, owner.describe())
    return None


async def _ready_or_dead(group: RunningGroup, instance: Instance, deadline: float) -> str | None:
    """None when ready or when a death came first, else what the probe saw when time was up."""
    probe = asyncio.create_task(_probe(group, instance, deadline))
    group.death.add_done_callback(lambda _: probe.cancel())
    try:
        await asyncio.wait({probe})
    finally:
        probe.cancel()
    return None if probe.cancelled() else probe.result()


async def _probe(group: RunningGroup, instance: Instance, deadline: float) -> str | None:
    seen = await wait_until_ready(
        instance.filled.probe, deadline - clock.now(), group.probe_context(instance)
    )
    # One that goes into the background is ready only once it is known whom to watch.
    if seen is None and instance.filled.pidfile is not None:
        return await _taken_hold_of(instance, deadline)
    return seen


async def _taken_hold_of(instance: Instance, deadline: float) -> str | None:
    if instance.following is None:  # it stays in the foreground so far: its own process is watched
        return None
    done, _ = await asyncio.wait({instance.following}, timeout=max(0.0, deadline - clock.now()))
    return None if done else f"{instance.filled.pidfile} names no process that it has started"


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
        if error.errno in EXHAUSTED:
            return failure.never_started(
                name, FailureKind.OUTSIDE, f"{error.strerror} (on this machine)"
            )
        raise UsageError(
            f'service "{name}": cannot run {filled.words[0]}: {error.strerror}',
            hint="is it made for this machine, and does a script begin with #! and its interpreter?",
        ) from error
    finally:
        os.close(output)
    kin = look_up(child.pid)
    service = RunningService(
        name=name,
        pid=child.pid,
        started=kin.started if kin else 0,
        start=group.instances[name].service.start + 1 if name in group.instances else 1,
        probe=filled.probe,
        port=filled.port,
        log=log,
        command=filled.words,
    )
    instance = Instance(service, spec, filled, child)
    group.add(instance)
    return instance

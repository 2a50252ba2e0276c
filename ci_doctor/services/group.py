# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts a group of services, each when what it needs is ready, and gives up at the first death."""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence

from ci_doctor.errors import UsageError
from ci_doctor.services import failure
from ci_doctor.services.check import check_services
from ci_doctor.services.logs import open_log
from ci_doctor.services.outcome import FailureKind, ServiceEvent, ServiceFailure
from ci_doctor.services.ports import is_local, owner_of
from ci_doctor.services.probe import wait_until_ready
from ci_doctor.services.running import RunningGroup, RunningService
from ci_doctor.services.spec import FilledSpec, LaunchContext, ServiceSpec, Target, fill_spec
from ci_doctor.system import clock
from ci_doctor.system.process import start

# fork(2) and open(2): the machine has none left, whatever the command is.
_EXHAUSTED = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})


async def start_group(
    specs: Mapping[str, ServiceSpec],
    names: Sequence[str],
    context: LaunchContext,
    on_event: Callable[[ServiceEvent], None],
) -> RunningGroup | ServiceFailure:
    """Start `names` and what they need, one after the other, each when the one before is ready.

    A failure is a value, and then everything that was started is stopped already; so it is when this is cancelled.
    Raises UsageError where `check_services` does and where a command cannot be run at all, and either error as `open_log`.
    """
    order = check_services(specs, names, context)
    deadline = clock.now() + context.limit_s if context.limit_s is not None else None
    group = RunningGroup(order, on_event)
    try:
        for name in order:
            filled = fill_spec(specs[name], context, group.ports, name)
            limit_s = specs[name].start_timeout_s()
            if deadline is not None:
                limit_s = min(limit_s, deadline - clock.now())
            fixed = specs[name].has_fixed_port()
            if failed := _cannot_start(name, filled, limit_s, fixed) or await _start(
                group, name, filled, context, limit_s
            ):
                await group.stop()
                return failed
    except BaseException:
        group.kill_now()
        raise
    return group


def _cannot_start(name: str, filled: FilledSpec, limit_s: float, fixed: bool) -> ServiceFailure | None:
    if limit_s <= 0:
        return failure.never_started(name, FailureKind.NOT_READY, "no time is left")
    # A reserved port was free a moment ago; a fixed one may have had an owner for days.
    if fixed and is_local(filled.target.host) and (owner := owner_of(filled.target.port)):
        return failure.never_started(name, FailureKind.OUTSIDE, owner.describe())
    return None


async def _start(
    group: RunningGroup, name: str, filled: FilledSpec, context: LaunchContext, limit_s: float
) -> ServiceFailure | None:
    if failed := _launch(group, name, filled, context):
        return failed
    seen = await _ready_or_dead(group, filled.target, limit_s)
    if isinstance(seen, ServiceFailure):
        return seen
    if seen is not None:
        return failure.not_ready(group.subject(name, clock.now()), seen)
    if owner := failure.impostor(filled.target, group.services[name].pid, group.tree):
        return failure.answered_by_another(group.subject(name, clock.now()), owner)
    group.mark_ready(name)
    return None


async def _ready_or_dead(group: RunningGroup, target: Target, limit_s: float) -> ServiceFailure | str | None:
    """None when ready, what the probe saw when it was not in time, or the death that came first."""
    probe = asyncio.create_task(wait_until_ready(target, limit_s))
    group.death.add_done_callback(lambda _: probe.cancel())
    try:
        await asyncio.wait({probe})
    finally:
        probe.cancel()
    return group.death.result() if group.death.done() else probe.result()


def _launch(group: RunningGroup, name: str, filled: FilledSpec, context: LaunchContext) -> ServiceFailure | None:
    log, output = open_log(context.log_directory, name)
    try:
        child = start(filled.words, environment=filled.env, directory=filled.cwd, output=output)
    except OSError as error:
        if error.errno in _EXHAUSTED:
            return failure.never_started(name, FailureKind.OUTSIDE, f"{error.strerror} (on this machine)")
        raise UsageError(
            f'service "{name}": cannot run {filled.words[0]}: {error.strerror}',
            hint="is it made for this machine, and does a script begin with #! and its interpreter?",
        ) from error
    finally:
        os.close(output)
    group.add(RunningService(name=name, pid=child.pid, target=filled.target, log=log, command=filled.words), child)
    return None

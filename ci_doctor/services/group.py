# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts a group of services, each when what it needs is ready, and gives up at the first death."""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from ci_doctor.services.check import check_services
from ci_doctor.services.outcome import ServiceEvent, ServiceFailure, StopResult
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, ServiceSpec, fill_spec
from ci_doctor.services.starting import cannot_start, start_service
from ci_doctor.system import clock


async def start_group(
    specs: Mapping[str, ServiceSpec],
    names: Sequence[str],
    context: LaunchContext,
    on_event: Callable[[ServiceEvent], None],
) -> RunningGroup | ServiceFailure:
    """Start `names` and what they need, each as soon as what it needs is ready.

    A failure is a value, the first of the group with its consequences, and then everything that was started is stopped
    already; so it is when this is cancelled. Raises UsageError where `check_services` does and where a command cannot be
    run at all, and either error as `open_log`.
    """
    order = check_services(specs, names, context)
    deadline = clock.now() + context.limit_s if context.limit_s is not None else None
    group = RunningGroup(order, on_event)
    try:
        if failed := _cannot_start(group, order, specs, context, deadline):
            group.fail(failed)
        else:
            if any("gpu-memory" in specs[name].released for name in order):
                group.note_gpu_memory()
            group.starter = functools.partial(_start, group, specs, context)
            await _start_all(group, order, specs, context, deadline)
        if not group.death.done():
            return group
        stopped = await group.stop(grace_s=context.grace_s)
    except asyncio.CancelledError:
        # The agent gives us 10 s in all, and nobody is left to be told what is still held.
        await group.stop(grace_s=context.grace_s, in_haste=True)
        raise
    except BaseException:
        group.kill_now()
        raise
    return root_cause(group.failures, stopped)


def root_cause(failures: Sequence[ServiceFailure], stopped: StopResult) -> ServiceFailure:
    """The first failure, with what followed from it."""
    consequences = tuple(failure.message for failure in failures[1:])
    return structs.replace(failures[0], consequences=consequences, stopped=stopped)


def _cannot_start(
    group: RunningGroup,
    order: Sequence[str],
    specs: Mapping[str, ServiceSpec],
    context: LaunchContext,
    deadline: float | None,
) -> ServiceFailure | None:
    """The first reason for which starting any of them would be in vain: fixed ports are looked at before all else."""
    for name in order:
        filled = fill_spec(specs[name], context, group.ports, name)
        if failed := cannot_start(name, specs[name], filled, _limit(specs[name], deadline)):
            return failed
    return None


def _limit(spec: ServiceSpec, deadline: float | None) -> float:
    limit_s = spec.start_timeout_s()
    return limit_s if deadline is None else min(limit_s, deadline - clock.now())


async def _start(
    group: RunningGroup,
    specs: Mapping[str, ServiceSpec],
    context: LaunchContext,
    name: str,
    deadline: float | None = None,
) -> None:
    await start_service(group, name, specs[name], context, _limit(specs[name], deadline))


async def _start_all(
    group: RunningGroup,
    order: Sequence[str],
    specs: Mapping[str, ServiceSpec],
    context: LaunchContext,
    deadline: float | None,
) -> None:
    """Returns when all are ready or one has failed; what a start raises is raised."""
    ready = {name: asyncio.Event() for name in order}

    async def start(name: str) -> None:
        for needed in specs[name].needs:
            await ready[needed].wait()
        if not group.death.done():
            await _start(group, specs, context, name, deadline)
            ready[name].set()

    tasks = [asyncio.create_task(start(name)) for name in order]
    group.death.add_done_callback(lambda _: [task.cancel() for task in tasks])
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result

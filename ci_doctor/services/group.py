# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts a group of services, each when what it needs is ready."""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from ci_doctor.model.service import ServiceFailure, StopResult
from ci_doctor.services.cause_elsewhere import with_cause_elsewhere
from ci_doctor.services.check import check_services
from ci_doctor.services.leaks.ledger import TEMPORARY, LeakLedger, LeakPolicy
from ci_doctor.services.outcome import ServiceEvent
from ci_doctor.services.port_names import port_names
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, ServiceSpec, fill_spec
from ci_doctor.services.starting import StartLimit, cannot_start, start_service
from ci_doctor.system import clock


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
        await _GroupStart(group, specs, order, context).run()
        if not group.death.done():
            return group
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


class _GroupStart:
    """The start of a group under way."""

    def __init__(
        self,
        group: RunningGroup,
        specs: Mapping[str, ServiceSpec],
        order: Sequence[str],
        context: LaunchContext,
    ) -> None:
        self._group = group
        self._specs = specs
        self._order = order
        self._context = context
        self._deadline: float | None = None
        if context.limit_s is not None:
            self._deadline = clock.now() + context.limit_s
        self._ready = {name: asyncio.Event() for name in order}

    async def run(self) -> None:
        """Returns when all are ready or one has failed; what a start raises is raised."""
        # Before anything is started: a fixed port with an owner makes every start futile.
        for name in self._order:
            filled = fill_spec(self._specs[name], self._context, self._group.ports, name)
            failed = cannot_start(name, self._specs[name], filled, self._limit(name))
            if failed is not None:
                self._group.fail(failed)
                return
        self._group.ledger = self._ledger()
        # Before the first start, because what the services take is the difference.
        if any("gpu-memory" in self._specs[name].released for name in self._order):
            self._group.note_gpu_memory()
        # A later start of a service has no part in the deadline of the group's own.
        self._group.starter = functools.partial(
            _start_again, self._group, self._specs, self._context
        )
        await self._start_all()

    def _ledger(self) -> LeakLedger:
        inherited = self._context.environment.get("TMPDIR")
        policies = {}
        for name in self._order:
            spec = self._specs[name]
            filled = fill_spec(spec, self._context, self._group.ports, name)
            temporary = filled.env.get("TMPDIR") or TEMPORARY
            policies[name] = LeakPolicy(
                mode=spec.leaks,
                allowed=tuple(spec.leaks_allowed),
                temporary=temporary,
                is_own=temporary not in {inherited, TEMPORARY},
            )
        ours = (str(self._context.log_directory), str(self._context.directory))
        return LeakLedger(policies, ours)

    async def _start_all(self) -> None:
        tasks = [asyncio.create_task(self._start_after_its_needs(name)) for name in self._order]

        def cancel_all(_: object) -> None:
            for task in tasks:
                task.cancel()

        self._group.death.add_done_callback(cancel_all)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            cancel_all(None)
            # Collected whatever happened, so that no error of a start goes unread.
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            # Not a CancelledError, which is no Exception.
            if isinstance(result, Exception):
                raise result

    async def _start_after_its_needs(self, name: str) -> None:
        spec = self._specs[name]
        for needed in spec.needs:
            await self._ready[needed].wait()
        if self._group.death.done():
            return
        # Only now: of the group's time, the waits above have used up a part.
        limit = self._limit(name)
        await start_service(self._group, name, spec, self._context, limit)
        self._ready[name].set()

    def _limit(self, name: str) -> StartLimit:
        own_s = self._specs[name].start_timeout_s()
        if self._deadline is None:
            return StartLimit(seconds=own_s)
        left_s = self._deadline - clock.now()
        seconds = min(own_s, left_s)
        # A busy machine extends the service's own time, and never that of the whole group.
        return StartLimit(seconds=seconds, hard_s=left_s)


async def _start_again(
    group: RunningGroup, specs: Mapping[str, ServiceSpec], context: LaunchContext, name: str
) -> None:
    limit = StartLimit(seconds=specs[name].start_timeout_s())
    await start_service(group, name, specs[name], context, limit)

# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs one command under a group of services, or the group alone."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from msgspec import structs

from ci_doctor.model.service import ServiceFailure, StopResult
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.cause_elsewhere import with_cause_elsewhere
from ci_doctor.services.group import start_group
from ci_doctor.services.launch.launched import ClientRun, Launched
from ci_doctor.services.launch.plan import LaunchPlan
from ci_doctor.services.launch.record import LaunchRecord
from ci_doctor.services.launch.running_client import RunningClient
from ci_doctor.services.outcome import ServiceEvent
from ci_doctor.services.running import RunningGroup
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.processes.process import describe_exit, is_ending
from ci_doctor.system.processes.process_table import look_up

# A client that fails because its server dies may end before that server.
_SAME_MOMENT_S = 0.05
# A server on its way out takes its time, with the memory of a model to give back.
_LONGEST_DEATH_S = 5.0
_DEATH_PAUSE_S = 0.01
# What a client has to end by itself once a service is gone; the tree's own stop comes after it.
_CLIENT_GRACE_S = 2.0
_GRACE_S = 5.0
_STOP_S = 8.0


def launch(
    plan: LaunchPlan,
    interruption: Interruption,
    on_event: Callable[[ServiceEvent], None],
    on_ready: Callable[[RunningGroup], None] = lambda _: None,
) -> Launched:
    """Start the services, run the client, stop everything: no process is left, however it ends.

    `interruption` is handling signals: the first ends the launch in order, a second at once.
    `on_ready` is called once all services are ready. Raises UsageError and InfraError as
    `start_group` does.
    """
    with asyncio.Runner() as runner:
        return runner.run(_Launch(plan, on_event, on_ready).to_the_end(interruption))


class _Launch:
    """A launch under way."""

    def __init__(
        self,
        plan: LaunchPlan,
        on_event: Callable[[ServiceEvent], None],
        on_ready: Callable[[RunningGroup], None],
    ) -> None:
        self.plan = plan
        self.request = plan.request
        self.on_event = on_event
        self.on_ready = on_ready
        self.record = LaunchRecord(plan.order)
        self.group: RunningGroup | None = None
        self.failure: ServiceFailure | None = None
        self.late: ServiceFailure | None = None
        self.client: RunningClient | None = None
        self.stopped: StopResult | None = None
        self.decided = False
        self.hurried = False

    async def to_the_end(self, interruption: Interruption) -> Launched:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        received = None
        with interruption.watch(task):
            try:
                await self._run()
            except asyncio.CancelledError:
                if interruption.received is None:
                    raise
                # A result stands: a signal after it has only hurried the end.
                if not self.decided:
                    received = interruption.received
                await self._wind_down(interruption.received)
            finally:
                # The last resort, also after an error of ours: no process may be left.
                if self.group is not None:
                    self.stopped = self.stopped or self.group.kill_now()
        return self._launched(received)

    async def _run(self) -> None:
        launched = await start_group(
            self.request.specs, self.request.names, self.plan.context, self._event
        )
        if isinstance(launched, ServiceFailure):
            self.failure = launched
            self.stopped = launched.stopped
            self.decided = True
            return
        self.group = launched
        self.on_ready(launched)
        if self.request.client:
            self.client = RunningClient(
                self.request.client,
                launched,
                environment=self.request.environment,
                directory=self.request.client_directory.absolute(),
                output=self.request.client_output,
            )
        await self._to_the_first_end(launched)
        self.decided = True
        # The client's server is gone: let it end before the rest, so that its last words are its
        # own.
        if self.failure is not None and self.client is not None:
            await self.client.end(signal.SIGTERM, _CLIENT_GRACE_S)
        self.stopped = await launched.stop()

    def _event(self, event: ServiceEvent) -> None:
        self.record.add(event)
        self.on_event(event)

    async def _to_the_first_end(self, group: RunningGroup) -> None:
        """Wait for the client or a service, and decide which of them was the cause."""
        if self.client is None:
            await asyncio.wait({group.death})
            self.failure = group.death.result()
            return
        if self.client.unable is not None:
            return
        ends: set[asyncio.Future[Any]] = {group.death, self.client.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        # A client that has ended well got all that it needed: a death is only worth a note then.
        well = self.client.has_ended() and self.client.returncode() == 0
        if not well:
            await _death_soon(group)
        if not group.death.done():
            return
        if well:
            self.late = group.death.result()
        else:
            self.failure = group.death.result()

    async def _wind_down(self, number: signal.Signals) -> None:
        """After a signal: the client first, then the rest, in less than the agent's grace.

        A second signal ends this at once.
        """
        if self.group is None:
            self.hurried = True
            return
        began = clock.now()
        try:
            if self.client is not None:
                await self.client.follow(number)
            # The agent kills a cancelled job after 10 s, and the report must be written by then.
            async with asyncio.timeout(_STOP_S):
                grace_s = max(0.5, _GRACE_S - (clock.now() - began))
                self.stopped = await self.group.stop(grace_s=grace_s)
        except (asyncio.CancelledError, TimeoutError) as error:
            self.hurried = isinstance(error, asyncio.CancelledError)
            self.stopped = self.group.kill_now(at_once=self.hurried)

    def _launched(self, received: signal.Signals | None) -> Launched:
        client = None
        if self.client is not None:
            client = self.client.result()
        failure = self._with_consequences(client)
        # A client that was never run is reported too, with no duration (conclude.py).
        if client is None and self.request.client:
            client = ClientRun(words=self.request.client)
        return Launched(
            services=self.record.services,
            failure=failure,
            late=self.late,
            received=received,
            client=client,
            hurried=self.hurried,
            stopped=self.stopped or StopResult(killed=tuple(self.record.killed), duration_s=0.0),
        )

    def _with_consequences(self, client: ClientRun | None) -> ServiceFailure | None:
        """The failure with what followed from it: the end of the client, and other deaths."""
        failure = self.failure
        if failure is None or self.group is None:
            return failure
        consequences = []
        if client is not None:
            consequences.append(_of_client(client))
        later = [other.message for other in self.group.failures if other is not failure]
        consequences.extend(later)
        failure = structs.replace(failure, consequences=tuple(consequences))
        return with_cause_elsewhere(failure, self.group.instances.values())


async def _death_soon(group: RunningGroup) -> None:
    """Wait for a death that is about to come, after a client that did not end well."""
    time_limit = BusyTimeout(_SAME_MOMENT_S, group.living_pids, hard_limit_s=_LONGEST_DEATH_S)
    await time_limit.wait(group.death)
    # The kernel closes a dying process's sockets first and frees its memory then: a client may be
    # gone before its server is.
    deadline = clock.now() + _LONGEST_DEATH_S
    while not group.death.done() and _one_is_ending(group) and clock.now() < deadline:
        await asyncio.wait({group.death}, timeout=_DEATH_PAUSE_S)


def _one_is_ending(group: RunningGroup) -> bool:
    for instance in group.instances.values():
        kin = look_up(instance.process.pid)
        # One that is gone has ended, and only the event loop does not know it yet.
        if kin is None or is_ending(kin.pid, kin.started):
            return True
    return False


def _of_client(client: ClientRun) -> str:
    """`pytest was stopped by ci-doctor, and ended with exit code 2`."""
    if client.returncode is None:
        end = "ended"
    elif client.returncode < 0:
        end = f"was {describe_exit(client.returncode)}"
    else:
        end = f"ended with {describe_exit(client.returncode)}"
    if client.end_requested:
        return f"{client.name} was stopped by ci-doctor, and {end}"
    return f"{client.name} {end}"

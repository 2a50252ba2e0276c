# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs one command under a group of services, or keeps the group until a signal or a death."""

import asyncio
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from ci_doctor.services.group import start_group
from ci_doctor.services.launch.launched import ClientRun, Launched
from ci_doctor.services.launch.record import LaunchRecord
from ci_doctor.services.launch.running_client import RunningClient
from ci_doctor.services.outcome import ServiceEvent, ServiceFailure, StopResult
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, ServiceSpec
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.processes.process import describe_exit

# A client that fails because its server has died can be seen to end before that server.
_SAME_MOMENT_S = 0.05
# What a client has to end by itself once a service is gone; the tree's own stop comes after it.
_CLIENT_GRACE_S = 2.0
_GRACE_S = 5.0
_STOP_S = 8.0


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """What is started: `order` are all services, `names` those that were asked for. `client` is empty for none.

    The client runs in `directory` under `environment` on our own stdin, `client_output` (a file descriptor) and stderr.
    """

    specs: Mapping[str, ServiceSpec]
    names: tuple[str, ...]
    order: tuple[str, ...]
    context: LaunchContext
    client: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    directory: Path = Path()
    client_output: int = 1


def run(
    plan: LaunchPlan,
    interruption: Interruption,
    on_event: Callable[[ServiceEvent], None],
    on_ready: Callable[[RunningGroup], None] = lambda _: None,
) -> Launched:
    """Start the services, run the client, stop everything: no process is left, however it ends.

    `interruption` is handling signals: the first ends the launch in order, a second at once. `on_ready` is called once
    all services are ready. Raises UsageError and InfraError as `start_group` does.
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
                # What is known already stands: the signal has only hurried the end.
                received = None if self.decided else interruption.received
                await self._wind_down(interruption.received)
            finally:
                if self.group is not None:
                    self.stopped = self.stopped or self.group.kill_now()
        return self._launched(received)

    async def _run(self) -> None:
        launched = await start_group(
            self.plan.specs, self.plan.names, self.plan.context, self._event
        )
        if isinstance(launched, ServiceFailure):
            self.failure, self.stopped, self.decided = launched, launched.stopped, True
            return
        self.group = launched
        self.on_ready(launched)
        if self.plan.client:
            self.client = RunningClient(
                self.plan.client,
                launched,
                environment=self.plan.environment,
                directory=self.plan.directory,
                output=self.plan.client_output,
            )
        await self._to_the_first_end(launched)
        self.decided = True
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
        well = self.client.has_ended() and self.client.returncode() == 0
        if not group.death.done() and not well:
            await asyncio.wait({group.death}, timeout=_SAME_MOMENT_S)
        failure = group.death.result() if group.death.done() else None
        self.failure, self.late = (None, failure) if well else (failure, None)

    async def _wind_down(self, number: signal.Signals) -> None:
        """After a signal: the client first, then the rest, all in less than the agent's grace; a second signal ends this."""
        if self.group is None:
            self.hurried = True
            return
        began = clock.now()
        try:
            if self.client is not None:
                await self.client.follow(number)
            async with asyncio.timeout(_STOP_S):
                self.stopped = await self.group.stop(
                    grace_s=max(0.5, _GRACE_S - (clock.now() - began))
                )
        except (asyncio.CancelledError, TimeoutError) as error:
            self.hurried = isinstance(error, asyncio.CancelledError)
            self.stopped = self.group.kill_now()

    def _launched(self, received: signal.Signals | None) -> Launched:
        failure, client = self.failure, self.client.result() if self.client is not None else None
        if failure is not None and self.group is not None:
            others = (other.message for other in self.group.failures if other is not failure)
            failure = structs.replace(failure, consequences=(*_of_client(client), *others))
        if client is None and self.plan.client:
            client = ClientRun(words=self.plan.client)
        return Launched(
            services=self.record.services,
            failure=failure,
            late=self.late,
            received=received,
            client=client,
            hurried=self.hurried,
            stopped=self.stopped or StopResult(killed=tuple(self.record.killed), duration_s=0.0),
        )


def _of_client(client: ClientRun | None) -> tuple[str, ...]:
    if client is None:
        return ()
    ended = (
        "ended" if client.returncode is None else f"ended with {describe_exit(client.returncode)}"
    )
    if client.returncode is not None and client.returncode < 0:
        ended = f"was {describe_exit(client.returncode)}"
    return (
        f"{Path(client.words[0]).name} {'was told to end, and ' if client.told else ''}{ended}",
    )

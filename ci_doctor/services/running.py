# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a group of services that runs, tells of the first death, and stops as a whole tree."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from ci_doctor.services.deaths import DeathWatch
from ci_doctor.services.instance import Instance, RunningService
from ci_doctor.services.outcome import EventKind, ServiceEvent, ServiceFailure, StopResult
from ci_doctor.services.ports import ReservedPort, reserve_port
from ci_doctor.services.probes.probe import ProbeContext, wait_until_ready
from ci_doctor.services.stopping import Stopping, settle
from ci_doctor.system import clock
from ci_doctor.system.gpu_memory import read_gpu_memory
from ci_doctor.system.guardian.client import Guardian
from ci_doctor.system.processes.process import Child
from ci_doctor.system.processes.process_table import Kin, look_up
from ci_doctor.system.processes.subreaper import become_subreaper
from ci_doctor.system.processes.tree import OwnTree

LONGEST_GRACE_S = 5.0
# What fails because of a death does so at once or much later: this long it is waited for, where anything else runs.
_CONSEQUENCES_S = 0.02


class RunningGroup:
    """Services that run together; made by `start_group`.

    `services` are in start order. `death` is done as soon as one of them has ended by itself, `failures` are all that did
    so, in order of time. Use one group at a time, inside a running event loop, and always `stop` it.
    """

    def __init__(self, names: Sequence[str], on_event: Callable[[ServiceEvent], None]) -> None:
        become_subreaper()
        self.services: dict[str, RunningService] = {}
        self.death: asyncio.Future[ServiceFailure] = asyncio.get_running_loop().create_future()
        self.failures: list[ServiceFailure] = []
        self.instances: dict[str, Instance] = {}
        self.starter: Callable[[str], Awaitable[None]] | None = None
        self._names = tuple(names)
        self._on_event = on_event
        self._ended_starts: list[Instance] = []
        self._before: dict[str, tuple[Kin, ...]] = {}
        self._stopping: asyncio.Task[StopResult] | None = None
        self._ports: dict[str, ReservedPort] = {}
        self._guardian = Guardian.start()
        try:
            self.tree = OwnTree(self._guardian)
            for name in names:
                self._ports[name] = reserve_port()
            self._watch = DeathWatch(self.tree, lambda: self._guardian.pid, self.tell, self.fail)
            self._stop_work = Stopping(self.tree, self._watch, self._guardian, self.tell)
        except BaseException:
            self._give_back()
            raise

    @property
    def endpoint(self) -> RunningService:
        """The service named last: the one that answers requests."""
        return self.services[self._names[-1]]

    @property
    def ports(self) -> dict[str, int]:
        """The port reserved for each service."""
        return {name: port.number for name, port in self._ports.items()}

    def note_gpu_memory(self) -> None:
        """Remember what is in use before the first start, for services that are to give it back. Raises as its reader."""
        self._stop_work.gpu_memory_before = read_gpu_memory()

    def launch(  # noqa: PLR0913 - what a process has
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: int,
        error: int | None = None,
        input: int | None = None,  # noqa: A002 - as subprocess has it
        foreground: bool = False,
        stop_words: Sequence[str] | None = None,
    ) -> Child:
        """Run a command in the group's tree: it ends with the group at the latest. Raises OSError as `Guardian.spawn`."""
        return self._guardian.spawn(
            words,
            environment=environment,
            directory=directory,
            output=output,
            error=error,
            input=input,
            foreground=foreground,
            stop_words=stop_words,
        )

    def add(self, instance: Instance) -> None:
        """Take a service that was just started into the group, and watch it."""
        name = instance.name
        if earlier := self.instances.get(name):
            self._watch.forget(earlier)
            self._ended_starts.append(earlier)
        self.instances[name] = instance
        found = {**self.services, name: instance.service}
        self.services = {each: found[each] for each in self._names if each in found}
        self.tell(instance.event(EventKind.STARTED, clock.now()))
        self._watch.add(instance)

    def mark_ready(self, name: str) -> None:
        """The service has answered its probe."""
        instance, now = self.instances[name], clock.now()
        instance.was_ready = True
        url = instance.service.base_url if instance.service.probe.is_network else None
        self.tell(instance.event(EventKind.READY, now, duration_s=now - instance.began, url=url))

    async def still_ready(self, name: str, limit_s: float) -> str | None:
        """None once the service answers its probe again; after `limit_s`, what was seen last."""
        instance = self.instances[name]
        return await wait_until_ready(instance.service.probe, limit_s, self.probe_context(instance))

    def probe_context(self, instance: Instance) -> ProbeContext:
        """What a service's probe needs besides its address."""
        filled = instance.filled

        def spawn(words: Sequence[str], output: int) -> Child:
            return self.launch(words, environment=filled.env, directory=filled.cwd, output=output)

        return ProbeContext(log=instance.service.log, environment=filled.env, spawn=spawn)

    def fail(self, failure: ServiceFailure) -> None:
        """One of the services is of no use any more: the first is the cause, the rest follows from it."""
        self.failures.append(failure)
        if not self.death.done():
            self.death.set_result(failure)

    def tell(self, event: ServiceEvent) -> None:
        """Hand an event to whoever listens."""
        self._on_event(event)

    async def take_down(self, name: str, number: signal.Signals) -> None:
        """Send the service's own process a signal, on purpose: its end is no death. Returns when that process has ended."""
        instance = self.instances[name]
        instance.wanted = True
        pid = instance.process.pid
        self._before[name] = tuple(
            {
                kin.identity: kin for kin in (*self.tree.below(pid), *self._watch.strays(pid))
            }.values()
        )
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        self._watch.forget(instance)
        loop.add_reader(instance.process.pidfd, settle, ended)
        try:
            if not instance.ended:
                self.tell(
                    instance.event(
                        EventKind.STOPPING, clock.now(), returncode=None, signal=number.name
                    )
                )
                signal.pidfd_send_signal(instance.process.pidfd, number)
                await ended
        except ProcessLookupError:
            pass
        finally:
            loop.remove_reader(instance.process.pidfd)
        instance.ended = True
        self.tell(
            instance.event(EventKind.STOPPED, clock.now(), returncode=instance.process.wait())
        )

    async def relaunch(self, name: str) -> ServiceFailure | None:
        """Start a service again that was taken down: same port, next log. Returns once it is ready, or why it is not."""
        assert self.starter is not None  # noqa: S101 - start_group sets it
        await self.starter(name)
        return self.death.result() if self.death.done() else None

    def remains(self, name: str) -> tuple[Kin, ...]:
        """What still lives of the processes that the service had when it was taken down."""
        now = ((kin, look_up(kin.pid)) for kin in self._before.get(name, ()))
        return tuple(
            kin
            for kin, seen in now
            if seen is not None and seen.identity == kin.identity and not seen.ended
        )

    async def stop(self, *, grace_s: float = LONGEST_GRACE_S, in_haste: bool = False) -> StopResult:
        """INT, TERM and then KILL to the whole tree, the last after `grace_s` (at most 5) seconds; 8 s at most in all.

        Then, unless `in_haste`, what the services' `released` asks for is awaited. May be called again. When cancelled it
        kills at once, then lets the cancellation through.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(
                self._stop(min(grace_s, LONGEST_GRACE_S), in_haste=in_haste)
            )
        try:
            return await asyncio.shield(self._stopping)
        except asyncio.CancelledError:
            self.kill_now()
            raise

    def kill_now(self) -> StopResult:
        """SIGKILL to the whole tree, without the event loop's help: the last resort. May be called again."""
        return self._finish(clock.now())

    async def _stop(self, grace_s: float, *, in_haste: bool) -> StopResult:
        began = clock.now()
        if self.death.done() and len(self._living()) > 0:
            await asyncio.sleep(_CONSEQUENCES_S)
        try:
            await self._stop_work.ask(tuple(self.instances.values()), grace_s)
        finally:
            result = self._finish(began)
        return (
            result
            if in_haste
            else await self._stop_work.await_released(tuple(self.instances.values()), result)
        )

    def _living(self) -> list[Instance]:
        return [instance for instance in self.instances.values() if not instance.ended]

    def _finish(self, began: float) -> StopResult:
        try:
            return self._stop_work.finish(tuple(self.instances.values()), began)
        finally:
            self._give_back()

    def _give_back(self) -> None:
        for instance in (*self.instances.values(), *self._ended_starts):
            instance.process.close()
        for port in self._ports.values():
            port.release()
        self._guardian.close()

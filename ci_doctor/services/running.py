# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a running group of services, which reports its first death and stops whole."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from ci_doctor.machine.gpus import read_gpu_memory
from ci_doctor.model.service import LeftBehind, ServiceFailure, StopResult
from ci_doctor.services.deaths import DeathWatch
from ci_doctor.services.instance import Death, EventKind, Instance, RunningService, ServiceEvent
from ci_doctor.services.leak_ledger import LeakLedger
from ci_doctor.services.ports import ReservedPort, reserve_port
from ci_doctor.services.probe import ProbeContext, wait_until_ready
from ci_doctor.services.stopping import Stopping
from ci_doctor.system import clock
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes.interruption import end_awaited
from ci_doctor.system.processes.process import Child
from ci_doctor.system.processes.process_table import Kin, still_lives
from ci_doctor.system.processes.tree import OwnTree, become_subreaper

LONGEST_GRACE_S = 5.0
# What fails because of a death does so at once or much later. So long it is waited for, if anything
# else still runs.
_CONSEQUENCES_S = 0.02


class RunningGroup:
    """Services that run together; made by `start_group`.

    `services` are in start order. `death` is done as soon as one of them has ended by itself;
    `failures` are all that did so, in order of time. Use it inside a running event loop, beside
    other groups if need be, and always `stop` it.
    """

    def __init__(
        self,
        names: Sequence[str],
        on_event: Callable[[ServiceEvent], None],
        further_ports: Sequence[str] = (),
    ) -> None:
        # If the guardian is killed, what it has started becomes our children.
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
        # In place of it comes the one for what is started, before the first start.
        self.ledger = LeakLedger({})
        self._ports: dict[str, ReservedPort] = {}
        self._guardian = Guardian.start()
        try:
            self.tree = OwnTree(self._guardian)
            # All before the first start: a command may hold the port of any other service.
            for name in (*names, *further_ports):
                self._ports[name] = reserve_port()
            guardian = self._guardian
            self._watch = DeathWatch(self.tree, lambda: guardian.adopters, self.report, self.fail)
            self._stop_work = Stopping(self.tree, self._watch, guardian, self.report)
            self.tree.begin()
        except BaseException:
            self._give_back()
            raise

    @property
    def endpoint(self) -> RunningService:
        """The service named last: the one that answers requests."""
        return self.services[self._names[-1]]

    @property
    def ports(self) -> dict[str, int]:
        """The reserved ports: of each service by its name, further ones as `port_names` has them."""
        return {name: port.number for name, port in self._ports.items()}

    def note_gpu_memory(self) -> None:
        """Remember what is in use before the first start, for services that must give it back.

        Raises as `read_gpu_memory`.
        """
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
        """Run a command in the group's tree: it ends with the group at the latest.

        Raises OSError as `Guardian.spawn`.
        """
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
        earlier = self.instances.get(instance.name)
        if earlier is not None:
            self._watch.forget(earlier)
            self._ended_starts.append(earlier)
        self.instances[instance.name] = instance
        # Made anew, because services become ready in any order and are listed in start order.
        self.services = {}
        for name in self._names:
            if name in self.instances:
                self.services[name] = self.instances[name].service
        self.report(instance.event(EventKind.STARTED, clock.now()))
        self._watch.add(instance)

    def mark_ready(self, name: str) -> None:
        """The service has answered its probe."""
        instance = self.instances[name]
        instance.was_ready = True
        now = clock.now()
        self._witness(instance)
        duration_s = now - instance.began
        url = instance.service.address
        self.report(instance.event(EventKind.READY, now, duration_s=duration_s, url=url))

    async def still_ready(self, name: str, limit_s: float) -> str | None:
        """None once the service answers its probe again; after `limit_s`, what was wrong last."""
        instance = self.instances[name]
        context = self.probe_context(instance)
        return await wait_until_ready(instance.service.probe, limit_s, context)

    def probe_context(self, instance: Instance) -> ProbeContext:
        """What a service's probe needs besides its address."""
        filled = instance.filled

        def spawn(words: Sequence[str], output: int) -> Child:
            return self.launch(words, environment=filled.env, directory=filled.cwd, output=output)

        return ProbeContext(
            log=instance.service.log,
            environment=filled.env,
            spawn=spawn,
            pids=self.living_pids,
        )

    def living_pids(self) -> list[int]:
        """The processes of all services, and the guardian that starts them."""
        # Asked several times a second, so the cheaper look: what it misses counts in the next one.
        living = self.tree.living(thorough=False)
        pids = [kin.pid for kin in living]
        return [self._guardian.pid, *pids]

    def fail(self, failure: ServiceFailure) -> None:
        """A service is of no use any more: the first is the cause, the rest follows from it."""
        self.failures.append(failure)
        if not self.death.done():
            self.death.set_result(failure)

    def report(self, event: ServiceEvent) -> None:
        """Pass an event on."""
        self._on_event(event)

    async def take_down(self, name: str, number: signal.Signals) -> None:
        """Send the service's own process a signal on purpose, and wait until it has ended.

        That end is no death.
        """
        instance = self.instances[name]
        # First: an end that comes before the signal was wanted all the same.
        instance.stop_wanted = True
        # Afterwards orphans no longer have a parent by which they could be attributed.
        pid = instance.process.pid
        self._before[name] = self._watch.processes_of(pid, alone=False)
        self._witness(instance)
        # One reader for each descriptor: from here on only we wait for its end.
        self._watch.forget(instance)
        # It may end by itself in this very moment.
        with contextlib.suppress(ProcessLookupError), end_awaited(instance.process.pidfd) as ended:
            if not instance.ended:
                now = clock.now()
                self.report(instance.event(EventKind.STOPPING, now, signal=number.name))
                signal.pidfd_send_signal(instance.process.pidfd, number)
                await ended
        instance.ended = True
        death = Death(returncode=instance.process.wait())
        self.report(instance.end_event(EventKind.STOPPED, clock.now(), death))

    async def relaunch(self, name: str) -> ServiceFailure | None:
        """Start a service again that was taken down: same port, next log.

        Returns None once it is ready, or why it is not.
        """
        assert self.starter is not None  # noqa: S101 - start_group sets it
        await self.starter(name)
        if not self.death.done():
            return None
        return self.death.result()

    def remains(self, name: str) -> tuple[Kin, ...]:
        """What still lives of the processes that the service had when it was taken down."""
        return tuple(filter(still_lives, self._before.get(name, ())))

    async def stop(self, *, grace_s: float = LONGEST_GRACE_S, in_haste: bool = False) -> StopResult:
        """Stop the whole tree with INT, TERM and then KILL; 8 s at most in all.

        KILL comes after `grace_s` seconds (at most 5). Then, unless `in_haste`, what the services'
        `released` names is awaited. May be called again. When cancelled it kills at once, then lets
        the cancellation through.
        """
        if self._stopping is None:
            grace_s = min(grace_s, LONGEST_GRACE_S)
            self._stopping = asyncio.create_task(self._stop(grace_s, in_haste=in_haste))
        try:
            # Shielded: a caller that is cancelled must not cut the stop off for the others.
            return await asyncio.shield(self._stopping)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # A second signal: whoever has sent it waits for no helper.
            self.kill_now(at_once=task is not None and task.cancelling() > 1)
            raise

    def kill_now(self, *, at_once: bool = False) -> StopResult:
        """SIGKILL to the whole tree, to helpers after two seconds or `at_once`; may be repeated."""
        return self._finish(clock.now(), at_once=at_once)

    async def _stop(self, grace_s: float, *, in_haste: bool) -> StopResult:
        began = clock.now()
        # What is reported as a consequence must have ended by itself, not by our signals.
        if self.death.done() and not all(each.ended for each in self.instances.values()):
            await asyncio.sleep(_CONSEQUENCES_S)
        instances = tuple(self.instances.values())
        for instance in instances:
            self._witness(instance)
        try:
            await self._stop_work.ask(instances, grace_s)
        finally:
            result = self._finish(began)
        if in_haste:
            return result
        return await self._stop_work.await_released(instances, result)

    def _finish(self, began: float, *, at_once: bool = False) -> StopResult:
        instances = tuple(self.instances.values())
        try:
            return self._stop_work.finish(instances, began, self._left_behind, at_once=at_once)
        finally:
            self.tree.end()
            self._give_back()

    def _left_behind(self) -> LeftBehind:
        for instance in (*self._ended_starts, *self.instances.values()):
            self.ledger.belong(instance.name, self._watch.pids_of(instance.process.pid))
        return self.ledger.settled()

    def _witness(self, instance: Instance) -> None:
        """Note what the processes of a service hold now."""
        pid, alone = instance.process.pid, len(self._names) == 1
        self.ledger.witness(instance.name, lambda: self._watch.processes_of(pid, alone=alone))

    def _give_back(self) -> None:
        # Only now: until the tree is gone, its pidfds tell how it ends and its ports are in use.
        for instance in (*self.instances.values(), *self._ended_starts):
            instance.process.close()
        for port in self._ports.values():
            port.release()
        self._guardian.close()

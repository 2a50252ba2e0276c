# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a running group of services, which reports its first death and stops whole."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ci_doctor.errors import CiDoctorError, InfraError
from ci_doctor.model.facts.launch import LeftBehind, NamedProcess, ServiceFailure, StopResult
from ci_doctor.model.words import parse_duration
from ci_doctor.services import failure_cause
from ci_doctor.services.deaths import DeathWatch
from ci_doctor.services.instance import Death, EventKind, Instance, RunningService, ServiceEvent
from ci_doctor.services.leak_ledger import LeakLedger
from ci_doctor.services.liveness import until_hung
from ci_doctor.services.ports import ReservedPort, gpu_memory_held, port_held, reserve_port
from ci_doctor.services.probe import ProbeContext, wait_until_ready
from ci_doctor.services.spec import Liveness
from ci_doctor.system import clock
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes.interruption import end_awaited
from ci_doctor.system.processes.process import Child, has_ended
from ci_doctor.system.processes.process_table import Kin, still_lives
from ci_doctor.system.processes.tree import OwnTree, become_subreaper

if TYPE_CHECKING:
    from ci_doctor.machine.gpus import GpuMemory

LONGEST_GRACE_S = 5.0
STOP_LIMIT_S = 8.0  # the agent gives a cancelled job 10 s
# `docker stop` waits for the container's own end; what is left after that must suffice for the rest
# of the tree.
_STOP_COMMAND_LIMIT_S = 4.0
# What fails because of a death does so at once or much later. So long it is waited for, if anything
# else still runs.
_CONSEQUENCES_S = 0.02
# How a program ends by its own fault (signal(7)); nobody sends these to end one.
_CRASHES = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"})


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
        loop = asyncio.get_running_loop()
        self.death: asyncio.Future[ServiceFailure] = loop.create_future()
        self._loop = loop
        self.is_over = False
        self.handler_before = loop.get_exception_handler()
        loop.set_exception_handler(self._fail_by_callback)
        self.failures: list[ServiceFailure] = []
        self.instances: dict[str, Instance] = {}
        self.starter: Callable[[str], Awaitable[None]] | None = None
        self.names = tuple(names)
        self._on_event = on_event
        self._ended_starts: list[Instance] = []
        self._before: dict[str, tuple[Kin, ...]] = {}
        self._stopping: asyncio.Task[StopResult] | None = None
        self._result: StopResult | None = None
        self._problems: list[str] = []
        # What is in use before the first start, for services that must give it back.
        self.gpu_memory_before: tuple[GpuMemory, ...] = ()
        # In place of it comes the one for what is started, before the first start.
        self.ledger = LeakLedger({})
        self._ports: dict[str, ReservedPort] = {}
        self._guardian = Guardian.start()
        # What runs a command in the group's tree: it ends with the group at the latest.
        self.launch = self._guardian.spawn
        try:
            self.tree = OwnTree(self._guardian)
            # All before the first start: a command may hold the port of any other service.
            for name in (*names, *further_ports):
                self._ports[name] = reserve_port()
            guardian = self._guardian
            self._watch = DeathWatch(self.tree, lambda: guardian.adopters, self.report, self.fail)
            self.tree.begin()
        except BaseException:
            self._give_back()
            raise

    @property
    def endpoint(self) -> RunningService:
        """The service named last: the one that answers requests."""
        return self.services[self.names[-1]]

    @property
    def ports(self) -> dict[str, int]:
        """The reserved ports: of each service by its name, further ones as `port_names` has them."""
        return {name: port.number for name, port in self._ports.items()}

    def add(self, instance: Instance) -> None:
        """Take a service that was just started into the group, and watch it."""
        earlier = self.instances.get(instance.name)
        if earlier is not None:
            self._watch.forget(earlier)
            self._ended_starts.append(earlier)
        self.instances[instance.name] = instance
        # Made anew, because services become ready in any order and are listed in start order.
        self.services = {}
        for name in self.names:
            if name in self.instances:
                self.services[name] = self.instances[name].service
        self.report(instance.event(EventKind.STARTED, clock.now()))
        self._watch.add(instance)

    def mark_ready(self, name: str) -> None:
        """The service has answered its probe."""
        instance = self.instances[name]
        instance.ready_at = clock.now()
        # Without a descriptor to look with, none of them is known.
        with contextlib.suppress(OSError):
            processes = self._watch.processes_of(instance.process.pid, alone=False)
            instance.at_ready = frozenset(kin.pid for kin in processes)
        now = clock.now()
        self._witness(instance)
        duration_s = now - instance.began
        url = instance.service.address
        self.report(instance.event(EventKind.READY, now, duration_s=duration_s, url=url))
        if instance.filled.liveness is not None:
            watching = asyncio.create_task(self._live(instance, instance.filled.liveness))
            instance.cleanup.append(watching.cancel)

    async def _live(self, instance: Instance, liveness: Liveness) -> None:
        """Report the service once it hangs; whoever stops it or sees its end cancels this."""

        def pids() -> list[int]:
            return [kin.pid for kin in self.tree.below(instance.process.pid)]

        context = structs.replace(self.probe_context(instance), pids=pids)
        service = instance.service
        try:
            hang = await until_hung(liveness, context, service.log, service.port)
            failure = failure_cause.hung(instance.subject(clock.now()), hang)
        # Its command was removed meanwhile, or no descriptor is left: a hang would go unnoticed.
        except (CiDoctorError, OSError) as error:
            failure = failure_cause.liveness_unknown(instance.subject(clock.now()), str(error))
        if not instance.ended and not instance.stop_wanted:
            self.fail(failure)

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

    def _fail_by_callback(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback raised, which the loop only prints: who waits for its death would wait on."""
        error = context.get("exception")
        is_taken = False
        if error is not None and "handle" in context and not (self.is_over or self.death.done()):
            self.death.set_exception(error)
            is_taken = True
        # Whose callback it was, nobody knows: a group that began earlier in this loop has it too.
        if self.handler_before is not None:
            self.handler_before(loop, context)
        elif not is_taken:
            loop.default_exception_handler(context)

    def _give_handler_back(self) -> None:
        self.is_over = True
        handler = self._loop.get_exception_handler()
        # Groups may end in another order than they began.
        while (group := getattr(handler, "__self__", None)) is not None:
            if not isinstance(group, RunningGroup) or not group.is_over:
                break
            handler = group.handler_before
        self._loop.set_exception_handler(handler)

    def not_ready(self, instance: Instance, problem: str) -> ServiceFailure:
        """The failure of a service that lives, and was not ready in time."""
        limits = self._watch.limits_of(instance.process.pid)
        return failure_cause.not_ready(instance.subject(clock.now()), problem, limits)

    def has_lost(self) -> bool:
        """Whether a process that a service had when it was ready has ended with another code than 0."""
        return any(instance.lost is not None for instance in self.instances.values())

    def loss(self) -> ServiceFailure | None:
        """The first such end. A server that recycles its workers has a `successor` by now."""
        for instance in self.instances.values():
            if instance.lost is not None:
                at, process, death = instance.lost
                successor = self._successor(instance, process)
                subject = instance.subject(at)
                return failure_cause.descendant_died(subject, process, death, successor)
        return None

    def _successor(self, instance: Instance, lost: NamedProcess) -> NamedProcess | None:
        with contextlib.suppress(OSError):
            for kin in self._watch.processes_of(instance.process.pid, alone=False):
                is_new = kin.pid not in instance.at_ready
                if is_new and kin.name == lost.name and still_lives(kin):
                    return _as_process(kin)
        return None

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
        return None if not self.death.done() else self.death.result()

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
        for instance in self.instances.values():
            self._witness(instance)
        try:
            self._announce()
            asked = clock.now()
            await self._run_stop_commands(min(grace_s, _STOP_COMMAND_LIMIT_S))
            await self.tree.terminate(max(0.0, grace_s - (clock.now() - asked)))
        finally:
            result = self._finish(began)
        return result if in_haste else await self._await_released(result)

    def _announce(self) -> None:
        """From now on the end of a service is no death."""
        # First, so that none of the ends that follow counts as a death.
        self._watch.close()
        for instance in self.instances.values():
            if not instance.ended and not instance.stop_wanted:
                instance.stop_wanted = True
                instance.stopping_since = clock.now()
                self.report(instance.event(EventKind.STOPPING, clock.now()))

    def _finish(self, began: float, *, at_once: bool = False) -> StopResult:
        """Kill what is left, helpers too if `at_once`, and report only then: a listener may be slow.

        The first result is also that of every later call.
        """
        if self._result is not None:
            return self._result
        try:
            self._announce()
        # A listener may raise: what is left must be killed all the same.
        finally:
            # However late it is, the kernel needs a moment to take down a large process.
            limit_s = max(1.0, began + STOP_LIMIT_S - clock.now())
            try:
                outcome = self.tree.kill(limit_s, at_once=at_once)
                self._result = StopResult(
                    killed=tuple(map(_as_process, outcome.killed)),
                    survivors=tuple(map(_as_process, outcome.survivors)),
                    duration_s=clock.now() - began,
                    cut_logs=self._watch.finish_logs(),
                    problems=tuple(self._problems),
                    left_behind=self._left_behind(),
                )
                self._report_killed(self._result)
                self._report_stopped()
                self._result = structs.replace(self._result, problems=tuple(self._problems))
            finally:
                self.tree.end()
                self._give_back()
        return self._result

    async def _await_released(self, result: StopResult) -> StopResult:
        """Await what the services' `released` names.

        What is still held when the time is up becomes part of the result.
        """
        waits = []
        for instance in self.instances.values():
            limit_s = parse_duration(instance.spec.release_timeout)
            if "port" in instance.spec.released:
                waits.append(port_held(instance.service.port, limit_s))
            if "gpu-memory" in instance.spec.released:
                waits.append(gpu_memory_held(self.gpu_memory_before, limit_s))
        if not waits:
            return result
        # Each sentence once: several services may wait for the same GPU.
        held: dict[str, None] = {}
        for sentences in await asyncio.gather(*waits):
            held.update(dict.fromkeys(sentences))
        return structs.replace(result, not_released=tuple(held))

    async def _run_stop_commands(self, limit_s: float) -> None:
        with contextlib.ExitStack() as stack:
            ends = []
            for child in self._start_stop_commands():
                stack.callback(child.close)
                ends.append(stack.enter_context(end_awaited(child.pidfd)))
            if ends:
                await asyncio.wait(ends, timeout=limit_s)

    def _start_stop_commands(self) -> Iterator[Child]:
        for instance in self.instances.values():
            if not instance.filled.stop_words:
                continue
            filled = instance.filled
            try:
                # What it writes belongs beside what its service wrote.
                with instance.service.log.open("ab") as output:
                    yield self.launch(
                        filled.stop_words,
                        environment=filled.env,
                        directory=filled.cwd,
                        output=output.fileno(),
                    )
            except (OSError, InfraError) as error:
                why = getattr(error, "strerror", None) or error
                self._problems.append(f"{instance.name}: its stop_command could not be run: {why}")

    def _report_killed(self, result: StopResult) -> None:
        by_pid = {instance.process.pid: instance for instance in self.instances.values()}
        for process in result.killed:
            event = ServiceEvent(
                kind=EventKind.KILLED,
                service=None,
                at=clock.now(),
                pid=process.pid,
                name=process.name,
                signal="SIGKILL",
            )
            # Workers are killed too, and are no service of their own.
            instance = by_pid.get(process.pid)
            if instance is not None:
                start = instance.service.start
                event = structs.replace(event, service=instance.name, start=start)
            self.report(event)

    def _report_stopped(self) -> None:
        for instance in self.instances.values():
            pidfd = instance.process.pidfd
            # It may be closed already.
            if instance.stopping_since is None or pidfd < 0 or not has_ended(pidfd):
                continue
            now = clock.now()
            # Before `peak_rss` is read, which is there only after the wait.
            death = Death(returncode=instance.process.wait())
            event = instance.end_event(
                EventKind.STOPPED,
                now,
                death,
                duration_s=now - instance.stopping_since,
                peak_rss=instance.process.peak_rss,
            )
            if event.signal in _CRASHES:
                self._problems.append(
                    f"{instance.name} crashed while it was stopped, by {event.signal}"
                )
            self.report(event)

    def _left_behind(self) -> LeftBehind:
        for instance in (*self._ended_starts, *self.instances.values()):
            self.ledger.belong(instance.name, self._watch.pids_of(instance.process.pid))
        return self.ledger.settled()

    def _witness(self, instance: Instance) -> None:
        """Note what the processes of a service hold now."""
        pid, alone = instance.process.pid, len(self.names) == 1
        self.ledger.witness(instance.name, lambda: self._watch.processes_of(pid, alone=alone))

    def _give_back(self) -> None:
        self._give_handler_back()
        # Only now: until the tree is gone, its pidfds tell how it ends and its ports are in use.
        for instance in (*self.instances.values(), *self._ended_starts):
            instance.process.close()
        for port in self._ports.values():
            port.release()
        self._guardian.close()


def _as_process(kin: Kin) -> NamedProcess:
    return NamedProcess(pid=kin.pid, name=kin.name)

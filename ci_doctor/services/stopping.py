# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: stops a whole group, once, and awaits what it holds."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from ci_doctor.errors import CiDoctorError
from ci_doctor.machine.gpus import GpuMemory, read_gpu_memory
from ci_doctor.model.quantities import parse_duration
from ci_doctor.model.service import LeftBehind, NamedProcess, StopResult
from ci_doctor.services.busy_timeout import aside
from ci_doctor.services.deaths import DeathWatch
from ci_doctor.services.instance import Death, EventKind, Instance, ServiceEvent
from ci_doctor.services.ports import owner_of
from ci_doctor.system import clock
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes.interruption import end_awaited
from ci_doctor.system.processes.listeners import is_listened_on
from ci_doctor.system.processes.process import Child, has_ended
from ci_doctor.system.processes.process_table import Kin
from ci_doctor.system.processes.tree import OwnTree

_PORT_PAUSE_S = 0.02
# A look through the GPU driver costs far more than one at a port.
_GPU_PAUSE_S = 0.2


class PortReleased(Struct, frozen=True, kw_only=True):
    """Nobody listens on TCP `port` of this machine any more."""

    port: int


class GpuMemoryBack(Struct, frozen=True, kw_only=True):
    """No GPU has more than `margin` bytes more in use than `before` the start (read_gpu_memory)."""

    before: tuple[GpuMemory, ...]
    margin: int = 256 * 2**20


Condition = PortReleased | GpuMemoryBack


async def wait_released(conditions: Iterable[Condition], limit_s: float) -> tuple[str, ...]:
    """Wait until all hold, or for `limit_s` seconds.

    Returns a sentence for each that does not hold, with what is in its way.
    """
    deadline = clock.now() + limit_s
    waits = []
    for condition in conditions:
        match condition:
            case PortReleased(port=port):
                waits.append(_port(port, deadline, limit_s))
            case GpuMemoryBack():
                waits.append(_gpu_memory(condition, deadline, limit_s))
    sentences: list[str] = []
    for held in await asyncio.gather(*waits):
        sentences.extend(held)
    return tuple(sentences)


async def _port(port: int, deadline: float, limit_s: float) -> tuple[str, ...]:
    while is_listened_on(port):
        left_s = deadline - clock.now()
        if left_s <= 0:
            owner = owner_of(port)
            # Released between the two looks.
            if owner is None:
                return ()
            return (f"{owner.describe()}, still {limit_s:g} s after the stop",)
        await asyncio.sleep(min(_PORT_PAUSE_S, left_s))
    return ()


async def _gpu_memory(condition: GpuMemoryBack, deadline: float, limit_s: float) -> tuple[str, ...]:
    limit = f"{limit_s:g} s of the stop"
    silent = f"the driver did not report within {limit} how much memory of the GPUs is in use"
    held: tuple[str, ...] = (silent,)
    while True:
        try:
            # At least once, however short the limit is.
            now = await asyncio.wait_for(aside(read_gpu_memory), max(1.0, deadline - clock.now()))
        except TimeoutError:
            return held
        except CiDoctorError as error:
            return (str(error),)
        held = tuple(_gpu_memory_held(condition, now, limit_s))
        left_s = deadline - clock.now()
        if not held or left_s <= 0:
            return held
        await asyncio.sleep(min(_GPU_PAUSE_S, left_s))


def _gpu_memory_held(
    condition: GpuMemoryBack, now: Iterable[GpuMemory], limit_s: float
) -> Iterator[str]:
    """A sentence for each GPU that has more in use than before."""
    used_before = {gpu.index: gpu.used for gpu in condition.before}
    for gpu in now:
        # A GPU that did not tell before is taken to have had nothing in use.
        before = used_before.get(gpu.index) or 0
        if gpu.used is None or gpu.used <= before + condition.margin:
            continue
        mebibytes = before // 2**20
        yield (
            f"{gpu.describe()}, {limit_s:g} s after the stop; it was {mebibytes:,} MiB before the "
            "start"
        )


STOP_LIMIT_S = 8.0  # the agent gives a cancelled job 10 s
# `docker stop` waits for the container's own end; what is left after that must suffice for the rest
# of the tree.
_STOP_COMMAND_LIMIT_S = 4.0


class Stopping:
    """The end of a group: first `ask`, then `finish`."""

    def __init__(
        self,
        tree: OwnTree,
        watch: DeathWatch,
        guardian: Guardian,
        on_event: Callable[[ServiceEvent], None],
    ) -> None:
        self._tree = tree
        self._watch = watch
        self._guardian = guardian
        self._on_event = on_event
        self._result: StopResult | None = None
        self._problems: list[str] = []
        self.gpu_memory_before: tuple[GpuMemory, ...] = ()

    async def ask(self, instances: Sequence[Instance], grace_s: float) -> None:
        """Run the stop commands, then INT and TERM to everything.

        Returns when nothing is left, or after `grace_s` seconds.
        """
        self._announce(instances)
        began = clock.now()
        await self._run_stop_commands(instances, min(grace_s, _STOP_COMMAND_LIMIT_S))
        await self._tree.terminate(max(0.0, grace_s - (clock.now() - began)))

    def finish(
        self,
        instances: Sequence[Instance],
        began: float,
        left_behind: Callable[[], LeftBehind],
        *,
        at_once: bool = False,
    ) -> StopResult:
        """Kill what is left, helpers too if `at_once`, and report only then: a listener may be slow.

        `left_behind` is called once nothing runs any more. The first result is also that of every later call.
        """
        if self._result is not None:
            return self._result
        try:
            self._announce(instances)
        # A listener may raise: what is left must be killed all the same.
        finally:
            # However late it is, the kernel needs a moment to take down a large process.
            limit_s = max(1.0, began + STOP_LIMIT_S - clock.now())
            outcome = self._tree.kill(limit_s, at_once=at_once)
            self._result = StopResult(
                killed=tuple(map(_as_process, outcome.killed)),
                survivors=tuple(map(_as_process, outcome.survivors)),
                duration_s=clock.now() - began,
                cut_logs=self._watch.finish_logs(),
                problems=tuple(self._problems),
                left_behind=left_behind(),
            )
        self._report_killed(instances, self._result)
        self._report_stopped(instances)
        return self._result

    async def await_released(self, instances: Sequence[Instance], result: StopResult) -> StopResult:
        """Await what the services' `released` names.

        What is still held when the time is up becomes part of the result.
        """
        waits = []
        for instance in instances:
            if instance.spec.released:
                limit_s = parse_duration(instance.spec.release_timeout)
                waits.append(wait_released(tuple(self._conditions(instance)), limit_s))
        if not waits:
            return result
        # Each sentence once: several services may wait for the same GPU.
        held: dict[str, None] = {}
        for sentences in await asyncio.gather(*waits):
            held.update(dict.fromkeys(sentences))
        return structs.replace(result, not_released=tuple(held))

    def _conditions(self, instance: Instance) -> Iterator[Condition]:
        if "port" in instance.spec.released:
            yield PortReleased(port=instance.service.port)
        if "gpu-memory" in instance.spec.released:
            yield GpuMemoryBack(before=self.gpu_memory_before)

    def _announce(self, instances: Iterable[Instance]) -> None:
        """From now on the end of a service is no death."""
        # First, so that none of the ends that follow counts as a death.
        self._watch.close()
        for instance in instances:
            if not instance.ended and not instance.stop_wanted:
                instance.stop_wanted = True
                instance.stopping_since = clock.now()
                self._on_event(instance.event(EventKind.STOPPING, clock.now()))

    async def _run_stop_commands(self, instances: Iterable[Instance], limit_s: float) -> None:
        with contextlib.ExitStack() as stack:
            ends = []
            for child in self._start_stop_commands(instances):
                stack.callback(child.close)
                ends.append(stack.enter_context(end_awaited(child.pidfd)))
            if ends:
                await asyncio.wait(ends, timeout=limit_s)

    def _start_stop_commands(self, instances: Iterable[Instance]) -> Iterator[Child]:
        for instance in instances:
            if not instance.filled.stop_words:
                continue
            filled = instance.filled
            try:
                # What it writes belongs beside what its service wrote.
                with instance.service.log.open("ab") as output:
                    yield self._guardian.spawn(
                        filled.stop_words,
                        environment=filled.env,
                        directory=filled.cwd,
                        output=output.fileno(),
                    )
            except OSError as error:
                why = error.strerror or error
                self._problems.append(f"{instance.name}: its stop_command could not be run: {why}")

    def _report_killed(self, instances: Iterable[Instance], result: StopResult) -> None:
        by_pid = {instance.process.pid: instance for instance in instances}
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
            self._on_event(event)

    def _report_stopped(self, instances: Iterable[Instance]) -> None:
        for instance in instances:
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
            self._on_event(event)


def _as_process(kin: Kin) -> NamedProcess:
    return NamedProcess(pid=kin.pid, name=kin.name)

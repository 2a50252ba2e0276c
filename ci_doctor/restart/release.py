# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: waits until a dead service holds nothing any more, and ends the rest."""

import asyncio
import contextlib
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import psutil
from msgspec import structs

from ci_doctor.model.facts.launch import LeftThing, NamedProcess
from ci_doctor.model.facts.restart_check import Released
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import size
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.findings import summary
from ci_doctor.services.instance import RunningService
from ci_doctor.services.leak_ledger import SHARED_MEMORY
from ci_doctor.services.ports import PortOwner, gpu_memory_held, is_local, owner_of
from ci_doctor.services.running import RunningGroup
from ci_doctor.system import clock
from ci_doctor.system.processes.listeners import is_listened_on
from ci_doctor.system.processes.process_table import Kin
from ci_doctor.system.processes.tree_stop import kill_in_order

if TYPE_CHECKING:
    from ci_doctor.machine.gpus import GpuMemory


# Between two looks. The seconds until a release are reported, so this is their precision.
_PAUSE_S = 0.02
_LONGEST_COMMAND = 200
# After SIGKILL a process is gone at once, unless it waits inside a driver or a file system.
_LAST_LIMIT_S = 2.0


class Release:
    """What one service gives back after its end, as seconds since `died_at`.

    `rss` is what its processes held before, in bytes. `checks_memory` tells whether shared memory is
    looked at, `gpu_before` what the GPUs held before anything was started; None if they are not.
    """

    def __init__(
        self,
        group: RunningGroup,
        service: RunningService,
        rss: int,
        died_at: float,
        *,
        checks_memory: bool,
        gpu_before: "tuple[GpuMemory, ...] | None" = None,
    ) -> None:
        self._group = group
        self._service = service
        self._died_at = died_at
        self._checks_memory = checks_memory
        self._gpu_before = gpu_before
        self._remains: tuple[Kin, ...] = ()
        self._memory_left: tuple[LeftThing, ...] = ()
        self._gpu_memory_left: tuple[str, ...] = ()
        # Where memory could have been left, as far as it was looked at.
        seen = (SHARED_MEMORY, "System V segments") if checks_memory else ()
        if gpu_before is not None:
            seen = (*seen, "the GPUs")
        # Listeners of another machine are not in our /proc.
        is_here = not service.probe.is_network or is_local(service.probe.host)
        self._released = Released(port=service.port if is_here else None, memory_seen=seen, rss=rss)

    async def wait(self, limit_s: float) -> Released:
        """Until all is released, or `limit_s` after the death.

        Then what is left of the service is killed.
        """
        released = self._released
        # Beside the rest: a wedged GPU driver must not delay the look at processes and port.
        gpu = asyncio.create_task(self._gpu_left(limit_s))
        time_limit = BusyTimeout(limit_s, self._group.living_pids)
        try:
            while not self._is_released():
                if time_limit.left_s() <= 0:
                    break
                await asyncio.sleep(_PAUSE_S)
            # Who still has the port, if it was not released.
            owner = None
            if released.port is not None and released.port_s is None:
                owner = owner_of(released.port)
                released.port_owner = None if owner is None else owner.describe()
            left = self._left(owner)
            # Before they are killed: a zombie has no command line.
            released.commands = tuple(map(command_of, left))
            await kill_in_order(left, _LAST_LIMIT_S)
            self._gpu_memory_left, gpu_s = await gpu
        finally:
            gpu.cancel()
        released.memory_left = (*_sentences(self._memory_left), *self._gpu_memory_left)
        if released.memory_s is not None:
            released.memory_s = None if released.memory_left else max(released.memory_s, gpu_s)
        # Even if the tree once looked empty: what holds the port belongs to it all the same.
        if left:
            released.processes = tuple(NamedProcess(pid=kin.pid, name=kin.name) for kin in left)
            released.tree_s = None
        return released

    def after_relaunch(self) -> Released:
        """The result of `wait`, without shared memory that the next start removed, or uses itself.

        PostgreSQL, as one example, leaves segments if it is killed, and its next start removes them.
        """
        names = {each.name for each in self._unused_memory()}
        left = [each for each in self._memory_left if each.name in names]
        taken_back = [summary([each]) for each in self._memory_left if each.name not in names]
        return structs.replace(
            self._released,
            memory_left=(*_sentences(left), *self._gpu_memory_left),
            memory_taken_back=tuple(taken_back),
        )

    def _is_released(self) -> bool:
        """Whether all is released, except for the memory of the GPUs."""
        # Each is checked until its first success only: the time of that is what is reported.
        since_s = clock.now() - self._died_at
        released = self._released
        if released.tree_s is None:
            self._remains = self._group.remains(self._service.name)
            released.tree_s = None if self._remains else since_s
        port = released.port
        if port is not None and released.port_s is None and not is_listened_on(port):
            released.port_s = since_s
        # Memory is left behind if nobody uses it any more, so the processes must be gone first.
        if released.tree_s is not None and released.memory_s is None:
            self._memory_left = self._unused_memory()
            released.memory_s = None if self._memory_left else since_s
        is_port_free = port is None or released.port_s is not None
        return is_port_free and released.tree_s is not None and released.memory_s is not None

    def _unused_memory(self) -> tuple[LeftThing, ...]:
        """What the service has left."""
        if not self._checks_memory:
            return ()
        return self._group.ledger.unused_memory(self._service.name)

    async def _gpu_left(self, limit_s: float) -> tuple[tuple[str, ...], float]:
        """What the GPUs still hold, in sentences, and when that was clear."""
        if self._gpu_before is None:
            return (), 0.0
        left = await gpu_memory_held(self._gpu_before, limit_s)
        return left, clock.now() - self._died_at

    def _left(self, owner: PortOwner | None) -> tuple[Kin, ...]:
        """What outlived the service.

        A process of the group on its port is the service's own, unless it belongs to another.
        """
        # By identity, because the owner of the port may be one of the remains.
        left = {kin.identity: kin for kin in self._remains}
        others = [each for each in self._group.services.values() if each is not self._service]
        pids_of_others = {kin.pid for each in others for kin in self._group.tree.below(each.pid)}
        if owner is None or owner.pid in pids_of_others:
            return tuple(left.values())
        # Only what this group has started is ever killed, whoever else holds the port.
        for kin in self._group.tree.living():
            if kin.pid == owner.pid:
                left[kin.identity] = kin
        return tuple(left.values())


def _sentences(left: Iterable[LeftThing]) -> Iterator[str]:
    for thing in left:
        taken = size(thing.size or 0)
        # `why` tells of the time before the end.
        was = f"it was the service's: {thing.why}"
        yield f"{summary([thing])} still takes {taken}, and no process uses it; {was}"


def resident(processes: Iterable[Kin]) -> int:
    """The bytes of memory that these processes hold now; shared pages count in each."""
    total = 0
    for kin in processes:
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(kin.pid).memory_info().rss
    return total


def command_of(kin: Kin) -> str:
    """How it was started, as far as that fits into a line."""
    words: list[str] = []
    with contextlib.suppress(psutil.Error):
        words = psutil.Process(kin.pid).cmdline()
    # A process that gives itself a title leaves the rest of its arguments empty.
    while words and not words[-1]:
        words.pop()
    return f"pid {kin.pid}: {shortened(shlex.join(words) or kin.name, _LONGEST_COMMAND)}"

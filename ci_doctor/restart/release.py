# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: waits until a service that has ended holds nothing any more, and then ends what is left of it."""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.restart.footprint import Footprint, left_behind
from ci_doctor.restart.observed import Released
from ci_doctor.services.instance import RunningService
from ci_doctor.services.outcome import NamedProcess
from ci_doctor.services.ports import PortOwner, is_local, owner_of
from ci_doctor.services.released import GpuMemoryBack, wait_released
from ci_doctor.services.running import RunningGroup
from ci_doctor.system import clock
from ci_doctor.system.processes.listeners import is_listened_on
from ci_doctor.system.processes.process_table import Kin, look_up

if TYPE_CHECKING:
    from ci_doctor.system.gpu_memory import GpuMemory

_PAUSE_S = 0.02
_LONGEST_COMMAND = 200
_LAST_LIMIT_S = 2.0


class Release:
    """What one service gives back after its end, as seconds since `died_at`.

    `gpu_before` is what the GPUs held before anything was started; None where they are not looked at.
    """

    def __init__(
        self,
        group: RunningGroup,
        service: RunningService,
        before: Footprint,
        died_at: float,
        *,
        shared_memory: bool,
        gpu_before: "tuple[GpuMemory, ...] | None" = None,
    ) -> None:
        self._group = group
        self._service = service
        self._before = before
        self._died_at = died_at
        self._shared_memory = shared_memory
        self._gpu_before = gpu_before
        self._tree_s: float | None = None
        self._port_s: float | None = None
        self._memory_s: float | None = None
        self._remains: tuple[Kin, ...] = ()
        self._memory_left: tuple[str, ...] = ()

    async def wait(self, limit_s: float) -> Released:
        """Until all is released, or `limit_s` after the death: then what is left of the service is killed."""
        gpu = asyncio.create_task(self._gpu_left(limit_s))
        try:
            while True:
                if self._look() or clock.now() - self._died_at >= limit_s:
                    break
                await asyncio.sleep(_PAUSE_S)
            owner = (
                owner_of(self._service.port)
                if self._looks_at_port and self._port_s is None
                else None
            )
            left = self._left(owner)
            commands = tuple(map(_command, left))
            for kin in left:
                _kill(kin)
            await _gone(left)
            gpu_left, gpu_s = await gpu
        finally:
            gpu.cancel()
        memory_left = (*self._memory_left, *gpu_left)
        return Released(
            port=self._service.port if self._looks_at_port else None,
            port_s=self._port_s,
            port_owner=owner.describe() if owner else None,
            tree_s=None if left else self._tree_s,
            processes=tuple(NamedProcess(pid=kin.pid, name=kin.name) for kin in left),
            commands=commands,
            memory_s=max(self._memory_s, gpu_s)
            if self._memory_s is not None and not memory_left
            else None,
            memory_left=memory_left,
            rss=self._before.rss,
        )

    def _look(self) -> bool:
        """Whether all is released, but for the memory of the GPUs."""
        since = clock.now() - self._died_at
        if self._tree_s is None:
            self._remains = self._group.remains(self._service.name)
            self._tree_s = None if self._remains else since
        if self._port_s is None and self._looks_at_port:
            self._port_s = None if is_listened_on(self._service.port) else since
        if self._memory_s is None and self._tree_s is not None:
            self._memory_left = (
                left_behind(self._before, self._group.tree.living()) if self._shared_memory else ()
            )
            self._memory_s = None if self._memory_left else since
        port_free = self._port_s is not None or not self._looks_at_port
        return port_free and self._tree_s is not None and self._memory_s is not None

    @property
    def _looks_at_port(self) -> bool:
        probe = self._service.probe
        return not probe.is_network or is_local(probe.host)

    async def _gpu_left(self, limit_s: float) -> tuple[tuple[str, ...], float]:
        """What the GPUs still hold, in sentences, and when that was known."""
        if self._gpu_before is None:
            return (), 0.0
        left = await wait_released([GpuMemoryBack(before=self._gpu_before)], limit_s)
        return left, clock.now() - self._died_at

    def _left(self, owner: PortOwner | None) -> tuple[Kin, ...]:
        """What outlived the service. One that holds its port is the service's own, unless it belongs to another."""
        left = {kin.identity: kin for kin in self._remains}
        others = [
            service.pid
            for name, service in self._group.services.items()
            if name != self._service.name
        ]
        theirs = (
            {kin.pid for other in others for kin in self._group.tree.below(other)}
            if owner
            else set()
        )
        for kin in self._group.tree.living() if owner else ():
            if owner is not None and kin.pid == owner.pid and kin.pid not in theirs:
                left[kin.identity] = kin
        return tuple(left.values())


def _command(kin: Kin) -> str:
    """How it was started, as far as that fits into a line."""
    try:
        words = Path(f"/proc/{kin.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = []
    text = shlex.join(words[:-1]) or kin.name
    return (
        f"pid {kin.pid}: {text if len(text) <= _LONGEST_COMMAND else text[:_LONGEST_COMMAND] + '…'}"
    )


def _kill(kin: Kin) -> None:
    """SIGKILL to this very process, and to none that has its pid by now."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(kin.pid)
        try:
            now = look_up(kin.pid)
            if now is not None and now.identity == kin.identity:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)


async def _gone(processes: Iterable[Kin]) -> None:
    """Until none of them lives, or the kernel holds one back for too long."""
    deadline = clock.now() + _LAST_LIMIT_S
    while True:
        seen = [(kin, look_up(kin.pid)) for kin in processes]
        if not any(now and now.identity == kin.identity and not now.ended for kin, now in seen):
            return
        if clock.now() >= deadline:
            return
        await asyncio.sleep(_PAUSE_S)

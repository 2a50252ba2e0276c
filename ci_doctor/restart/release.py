# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: waits until a dead service holds nothing any more, and ends the rest."""

import asyncio
import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from msgspec import Struct, structs

from ci_doctor.model.facts.restart_check import Released
from ci_doctor.model.service import LeftKind, NamedProcess
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import size
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.instance import RunningService
from ci_doctor.services.leaks.places import (
    SHARED_MEMORY,
    PlacesSnapshot,
    Tables,
    holding,
    in_use,
    pids_in_name,
    snapshot,
)
from ci_doctor.services.ports import PortOwner, is_local, owner_of
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.stopping import GpuMemoryBack, wait_released
from ci_doctor.system import clock
from ci_doctor.system.processes.listeners import is_listened_on
from ci_doctor.system.processes.process_table import Kin, look_up
from ci_doctor.system.processes.tree_stop import kill_in_order

if TYPE_CHECKING:
    from ci_doctor.machine.gpus import GpuMemory


# Semaphores are files there too, of some bytes; they are not what makes a machine run out of
# memory.
_SMALLEST_LEFT = 1024 * 1024
_NO_SOCKETS = Tables(sockets={}, ports={})
_NEW = f"it is new in {SHARED_MEMORY} since the services were started, and no process has it open"


class Footprint(Struct, frozen=True, kw_only=True):
    """What processes hold: `rss` bytes, and files in /dev/shm by path with their inode.

    Shared pages count in each process. `pids` are the processes that were read.
    """

    rss: int = 0
    shared: dict[str, int] = {}
    pids: frozenset[int] = frozenset()


class LeftMemory(Struct, frozen=True, kw_only=True):
    """Shared memory that nobody uses: `name` is the path of a file or the id of a segment."""

    name: str
    sentence: str


def named_memory() -> PlacesSnapshot:
    """What there is now of shared memory with a name: files (shm_overview(7)), System V's segments."""
    return snapshot([SHARED_MEMORY], deep=True)


def footprint(processes: Iterable[Kin]) -> Footprint:
    """Of these processes now; one that is gone, or that may not be read, holds nothing."""
    rss = 0
    shared: dict[str, int] = {}
    pids = set()
    files = named_memory().files
    for kin in processes:
        try:
            resident = psutil.Process(kin.pid).memory_info().rss
        except psutil.Error:
            continue
        held = None
        with contextlib.suppress(PermissionError):
            held = holding(kin.pid, files, _NO_SOCKETS)
        now = look_up(kin.pid)
        # Another process may have the pid by now: what was read is then not this one's.
        if now is None or now.identity != kin.identity:
            continue
        rss += resident
        pids.add(kin.pid)
        if held is not None:
            # Named memory outlives its processes; private memory goes with them (shm_overview(7)).
            shared |= {path: files[path] for path in held.paths}
    return Footprint(rss=rss, shared=shared, pids=frozenset(pids))


def left_behind(
    before: Footprint,
    living: Iterable[Kin],
    earlier: PlacesSnapshot | None = None,
) -> tuple[LeftMemory, ...]:
    """The shared memory that still exists and that none of `living` uses.

    It is what `before` held. With `earlier`, what there was before the services were started, also
    what is new since then and held by no process of the machine: a file with the pid of one of its
    processes in its name, a System V segment that one of them made or used last.
    """
    candidates = {}
    for path, inode in sorted(before.shared.items()):
        count = _taken(path, inode)
        if count >= _SMALLEST_LEFT:
            candidates[path] = count
    left = list(_unused(candidates, living))
    if earlier is not None:
        now = named_memory()
        for path, count in _new_files(before, earlier, now).items():
            if before.pids.intersection(pids_in_name(path)):
                sentence = f"{path} takes {size(count)} of shared memory: {_NEW}"
                left.append(LeftMemory(name=path, sentence=sentence))
        left.extend(_new_segments(before, earlier, now))
    return tuple(left)


def of_unknown_owner(before: Footprint, earlier: PlacesSnapshot) -> tuple[str, ...]:
    """New files that nobody uses, and that another job may have made as well, a sentence for each."""
    sentences = []
    for path, count in _new_files(before, earlier, named_memory()).items():
        if not before.pids.intersection(pids_in_name(path)):
            sentences.append(f"{path} ({size(count)})")
    return tuple(sentences)


def _unused(candidates: dict[str, int], living: Iterable[Kin]) -> Iterator[LeftMemory]:
    # The maps of every living process are read only if there is something to find.
    if not candidates:
        return
    in_use = footprint(living).shared
    for path, count in candidates.items():
        if path not in in_use:
            sentence = (
                f"{path} still takes {size(count)} of shared memory, and none of the services' "
                "processes uses it"
            )
            yield LeftMemory(name=path, sentence=sentence)


def _new_files(before: Footprint, earlier: PlacesSnapshot, now: PlacesSnapshot) -> dict[str, int]:
    """Files that came up meanwhile and that no process has open or mapped, with their bytes."""
    candidates = {}
    for path, inode in sorted(now.files.items()):
        # What it held is judged already. Another user's files are not its.
        if earlier.files.get(path) == inode or path in before.shared:
            continue
        count = _taken(path, inode, owner=os.getuid())
        if count >= _SMALLEST_LEFT:
            candidates[path] = count
    try:
        used = in_use(candidates)
    except OSError:  # nobody can tell
        return {}
    return {path: count for path, count in candidates.items() if path not in used}


def _new_segments(
    before: Footprint, earlier: PlacesSnapshot, now: PlacesSnapshot
) -> Iterator[LeftMemory]:
    """System V segments to which nobody is attached any more."""
    for key, segment in sorted(now.objects.items()):
        if segment.kind is not LeftKind.SYSV_SHARED_MEMORY or key in earlier.objects:
            continue
        if segment.attached or segment.taken < _SMALLEST_LEFT:
            continue
        if before.pids.intersection(segment.pids):
            sentence = (
                f"System V segment {segment.id} takes {size(segment.taken)} of shared memory, and "
                f"nobody is attached to it (`ipcrm -m {segment.id}` removes it)"
            )
            yield LeftMemory(name=f"segment {segment.id}", sentence=sentence)


def _taken(path: str, inode: int, *, owner: int | None = None) -> int:
    """Bytes that the file takes now, 0 if it is gone, another one, or not the user's `owner`."""
    try:
        status = Path(path).lstat()
    except OSError:
        return 0
    # A new file by an old name belongs to whoever made it, such as the service's next start.
    if status.st_ino != inode or owner not in {None, status.st_uid}:
        return 0
    return status.st_blocks * 512  # stat(2): in units of 512 bytes


# Between two looks. The seconds until a release are reported, so this is their precision.
_PAUSE_S = 0.02
_LONGEST_COMMAND = 200
# After SIGKILL a process is gone at once, unless it waits inside a driver or a file system.
_LAST_LIMIT_S = 2.0


class Release:
    """What one service gives back after its end, as seconds since `died_at`.

    `earlier` is the shared memory that there was before anything was started, and `gpu_before` what
    the GPUs held; None if they are not checked.
    """

    def __init__(
        self,
        group: RunningGroup,
        service: RunningService,
        before: Footprint,
        died_at: float,
        *,
        earlier: PlacesSnapshot | None,
        gpu_before: "tuple[GpuMemory, ...] | None" = None,
    ) -> None:
        self._group = group
        self._service = service
        self._before = before
        self._died_at = died_at
        self._earlier = earlier
        self._gpu_before = gpu_before
        probe = service.probe
        # Listeners of another machine are not in our /proc.
        self._checks_port = not probe.is_network or is_local(probe.host)
        self._tree_s: float | None = None
        self._port_s: float | None = None
        self._memory_s: float | None = None
        self._remains: tuple[Kin, ...] = ()
        self._memory_left: tuple[LeftMemory, ...] = ()
        self._gpu_memory_left: tuple[str, ...] = ()
        self._released = Released()

    async def wait(self, limit_s: float) -> Released:
        """Until all is released, or `limit_s` after the death.

        Then what is left of the service is killed.
        """
        # Beside the rest: a wedged GPU driver must not delay the look at processes and port.
        gpu = asyncio.create_task(self._gpu_left(limit_s))
        try:
            await self._until_released(limit_s)
            owner = self._port_owner()
            left = self._left(owner)
            # Before they are killed: a zombie has no command line.
            commands = tuple(map(_command, left))
            await kill_in_order(left, _LAST_LIMIT_S)
            self._gpu_memory_left, gpu_s = await gpu
        finally:
            gpu.cancel()
        memory_left = (*_sentences(self._memory_left), *self._gpu_memory_left)
        memory_s = None
        if self._memory_s is not None and not memory_left:
            memory_s = max(self._memory_s, gpu_s)
        released = Released(
            port_s=self._port_s,
            commands=commands,
            memory_s=memory_s,
            memory_left=memory_left,
            memory_seen=self._places_seen(),
            memory_unknown=self._memory_unknown(),
            rss=self._before.rss,
        )
        if self._checks_port:
            released = structs.replace(released, port=self._service.port)
        if owner is not None:
            released = structs.replace(released, port_owner=owner.describe())
        # Even if the tree once looked empty: what holds the port belongs to it all the same.
        if left:
            self._released = structs.replace(released, processes=_named(left))
        else:
            self._released = structs.replace(released, tree_s=self._tree_s)
        return self._released

    def after_relaunch(self) -> Released:
        """The result of `wait`, without shared memory that the next start removed, or uses itself.

        PostgreSQL, as one example, leaves segments if it is killed, and its next start removes them.
        """
        names = {each.name for each in self._shared_memory_left()}
        left = [each for each in self._memory_left if each.name in names]
        taken_back = [each.name for each in self._memory_left if each.name not in names]
        unknown: tuple[str, ...] = ()
        if self._released.memory_unknown:
            now = frozenset(self._memory_unknown())
            unknown = tuple(each for each in self._released.memory_unknown if each in now)
        return structs.replace(
            self._released,
            memory_left=(*_sentences(left), *self._gpu_memory_left),
            memory_taken_back=tuple(taken_back),
            memory_unknown=unknown,
        )

    async def _until_released(self, limit_s: float) -> None:
        time_limit = BusyTimeout(limit_s, self._group.living_pids)
        while not self._is_released():
            if time_limit.left_s() <= 0:
                break
            await asyncio.sleep(_PAUSE_S)

    def _is_released(self) -> bool:
        """Whether all is released, except for the memory of the GPUs."""
        # Each is checked until its first success only: the time of that is what is reported.
        since_s = clock.now() - self._died_at
        self._check_tree(since_s)
        self._check_port(since_s)
        # Memory is left behind if nobody uses it any more, so the processes must be gone first.
        if self._tree_s is not None:
            self._check_memory(since_s)
        is_port_free = self._port_s is not None or not self._checks_port
        return is_port_free and self._tree_s is not None and self._memory_s is not None

    def _check_tree(self, since_s: float) -> None:
        if self._tree_s is None:
            self._remains = self._group.remains(self._service.name)
            if not self._remains:
                self._tree_s = since_s

    def _check_port(self, since_s: float) -> None:
        if self._port_s is not None or not self._checks_port:
            return
        if not is_listened_on(self._service.port):
            self._port_s = since_s

    def _check_memory(self, since_s: float) -> None:
        if self._memory_s is None:
            self._memory_left = self._shared_memory_left()
            if not self._memory_left:
                self._memory_s = since_s

    def _shared_memory_left(self) -> tuple[LeftMemory, ...]:
        if self._earlier is None:
            return ()
        return left_behind(self._before, self._group.tree.living(), self._earlier)

    def _memory_unknown(self) -> tuple[str, ...]:
        # With several services it is even less clear whose such a file is.
        if self._earlier is None or len(self._group.services) > 1:
            return ()
        return of_unknown_owner(self._before, self._earlier)

    def _places_seen(self) -> tuple[str, ...]:
        """Where memory could have been left, as far as it was looked at."""
        places = []
        if self._earlier is not None:
            places += [SHARED_MEMORY, "System V segments"]
        if self._gpu_before is not None:
            places.append("the GPUs")
        return tuple(places)

    def _port_owner(self) -> PortOwner | None:
        """Who still has the service's port, if it was not released."""
        if not self._checks_port or self._port_s is not None:
            return None
        return owner_of(self._service.port)

    async def _gpu_left(self, limit_s: float) -> tuple[tuple[str, ...], float]:
        """What the GPUs still hold, in sentences, and when that was clear."""
        if self._gpu_before is None:
            return (), 0.0
        left = await wait_released([GpuMemoryBack(before=self._gpu_before)], limit_s)
        return left, clock.now() - self._died_at

    def _left(self, owner: PortOwner | None) -> tuple[Kin, ...]:
        """What outlived the service.

        A process of the group on its port is the service's own, unless it belongs to another.
        """
        # By identity, because the owner of the port may be one of the remains.
        left = {kin.identity: kin for kin in self._remains}
        if owner is None or owner.pid in self._pids_of_others():
            return tuple(left.values())
        # Only what this group has started is ever killed, whoever else holds the port.
        for kin in self._group.tree.living():
            if kin.pid == owner.pid:
                left[kin.identity] = kin
        return tuple(left.values())

    def _pids_of_others(self) -> set[int]:
        """The processes of the other services."""
        pids: set[int] = set()
        for name, service in self._group.services.items():
            if name == self._service.name:
                continue
            for kin in self._group.tree.below(service.pid):
                pids.add(kin.pid)
        return pids


def _sentences(left: Iterable[LeftMemory]) -> Iterator[str]:
    return (each.sentence for each in left)


def _named(processes: Iterable[Kin]) -> tuple[NamedProcess, ...]:
    named = [NamedProcess(pid=kin.pid, name=kin.name) for kin in processes]
    return tuple(named)


def _command(kin: Kin) -> str:
    """How it was started, as far as that fits into a line."""
    try:
        words = psutil.Process(kin.pid).cmdline()
    except psutil.Error:
        words = []
    text = shlex.join(words) or kin.name
    return f"pid {kin.pid}: {shortened(text, _LONGEST_COMMAND)}"

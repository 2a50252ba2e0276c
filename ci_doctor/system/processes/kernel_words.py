# SPDX-License-Identifier: Apache-2.0
"""Reads cgroups: what the kernel says of a process that has ended.

Whether it killed for lack of memory, and whose, is read from the counters of cgroups and /proc/vmstat; so
is whether it refused processes or threads.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, Self

from msgspec import Struct

from ci_doctor.system.files.access import unescaped

_UNLIMITED = 2**60  # cgroup v1 writes "none" as the largest number of whole pages
_MIB = 2**20
_GIB = 2**30
Version = Literal[1, 2]


class Level(Struct, frozen=True, kw_only=True):
    """The counters of one cgroup.

    `kills` counts processes killed for lack of memory, `hit` how often its own `limit` (bytes)
    was reached.
    """

    kills: int
    hit: int
    limit: int | None


class OomCause(Struct, frozen=True, kw_only=True):
    """Whose memory ran out: with `limit` (bytes) a cgroup's, otherwise the machine's."""

    limit: int | None = None

    @property
    def host(self) -> bool:
        """Whether it was the machine's."""
        return self.limit is None

    def describe(self) -> str:
        """`the host`, `its cgroup (limit 8 GiB)`."""
        if self.limit is None:
            return "the host"
        if self.limit < _GIB:
            return f"its cgroup (limit {self.limit // _MIB} MiB)"
        return f"its cgroup (limit {self.limit / _GIB:.3g} GiB)"


class MemoryEvents(Struct, frozen=True, kw_only=True):
    """The counters of a process's cgroup and of those above it, the nearest first.

    `levels` holds those that can be read here. `unlimited` says that the process is in no cgroup
    that could have a limit; then `host_kills` decides, the kernel's count of all kills for lack
    of memory since boot.
    """

    levels: tuple[Level, ...] = ()
    unlimited: bool = False
    host_kills: int | None = None

    @classmethod
    def read(cls, pid: int | Literal["self"] = "self") -> Self:
        """Read those of the process `pid` now, as `at` does."""
        return cls.at(locate(pid))

    @classmethod
    def at(cls, place: "CgroupPlace | None") -> Self:
        """Read them now; what cannot be read, or lies outside this container's view, is left out.

        cgroup v2 memory.events and memory.max; v1 memory.oom_control, memory.failcnt and
        memory.limit_in_bytes; /proc/vmstat.
        """
        host_kills = _number(Path("/proc/vmstat"), "oom_kill")
        if place is None:
            return cls(host_kills=host_kills)
        read = _read_v2 if place.version == 2 else _read_v1
        levels = tuple(filter(None, map(read, place.directories())))
        unlimited = place.version == 2 and not levels and _is_root(place.mount)
        return cls(levels=levels, unlimited=unlimited, host_kills=host_kills)


class CgroupPlace(Struct, frozen=True, kw_only=True):
    """Where a process's cgroup can be seen: the mount point, and the path below it.

    The counters stay there when the process has gone, which a zombie of cgroup v1 has already.
    """

    mount: Path
    below: str
    version: Version

    def directories(self) -> Iterator[Path]:
        """That of the cgroup, and those above it in view."""
        path = self.mount / self.below
        while path != self.mount:
            yield path
            path = path.parent
        yield path


def locate(pid: int | Literal["self"], controller: str = "memory") -> CgroupPlace | None:
    """The cgroup in which `controller` counts the process; None if it cannot be seen."""
    try:
        path, version = own_cgroup(Path(f"/proc/{pid}/cgroup").read_text().splitlines(), controller)
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    top = mount_of(lines, version, path, controller)
    return top and CgroupPlace(mount=top[0], below=top[1], version=version)


# How often a new process or thread was refused in a cgroup and in those above, and their limits.
Refusals = tuple[tuple[int, int | None], ...]


def refusals(place: CgroupPlace | None) -> Refusals:
    """Read pids.events and pids.max now, the nearest first; what cannot be read is left out."""
    levels = []
    for directory in () if place is None else place.directories():
        count = _number(directory / "pids.events", "max")
        if count is not None:
            levels.append((count, limit_of(directory / "pids.max")))
    return tuple(levels)


def task_limit(before: Refusals, after: Refusals) -> int | None:
    """The limit of processes and threads that was reached in between; None if none is known to be.

    Kernels before 6.11 count a refusal where the process is, and not where the limit is.
    """
    if len(before) != len(after):
        return None
    is_refused = False
    for (then, _), (now, limit) in zip(before, after, strict=True):
        is_refused = is_refused or now > then
        if is_refused and limit is not None:
            return limit
    return None


def oom_cause(before: MemoryEvents, after: MemoryEvents) -> OomCause | None:
    """What made the kernel kill a process of that cgroup in between, from two readings.

    None if the kernel has killed none, or if that cannot be known. The nearest cgroup whose limit
    was hit is the cause. If none in view was hit, it was the machine: the limits that a container
    cannot see above itself are those of the whole node.
    """
    if after.unlimited:
        has_killed = (after.host_kills or 0) > (before.host_kills or 0)
        return OomCause() if has_killed else None
    # Another number of levels: the process was moved to another cgroup meanwhile.
    if len(before.levels) != len(after.levels) or not after.levels:
        return None
    if after.levels[0].kills <= before.levels[0].kills:
        return None
    for then, now in zip(before.levels, after.levels, strict=True):
        if now.hit > then.hit and now.limit is not None:
            return OomCause(limit=now.limit)
    return OomCause()


def own_cgroup(lines: Iterable[str], controller: str = "memory") -> tuple[str, Version]:
    """The path of the cgroup that counts memory, or by another `controller`, and its version.

    `lines` are those of /proc/PID/cgroup (cgroups(7)). Raises OSError if there is none.
    """
    unified = None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path, 1
        if not controllers:
            unified = path
    if unified is None:
        raise FileNotFoundError(f"no cgroup has the controller {controller}")
    return unified, 2


def mount_of(
    lines: Iterable[str], version: Version, path: str, controller: str = "memory"
) -> tuple[Path, str] | None:
    """The mount point that shows cgroup `path`, and the path below it; None if no mount does.

    `lines` are those of /proc/PID/mountinfo (proc_pid_mountinfo(5)). In a container the mount may
    begin anywhere within the hierarchy (field 4, "root"). Of several mounts the last one counts,
    which hides the others.
    """
    match = None
    for line in lines:
        if not _is_mount_of(line, version, controller):
            continue
        fields = line.split(" ")
        root = unescaped(fields[3])
        point = unescaped(fields[4])
        # A path with `..` leads out of this cgroup namespace (cgroup_namespaces(7)).
        if "/.." in path + root:
            continue
        below = os.path.relpath(path, root)
        if not below.startswith(".."):
            match = Path(point), below
    return match


def _is_mount_of(line: str, version: Version, controller: str) -> bool:
    """Whether a line of mountinfo is a mount of the hierarchy with this controller."""
    kind, _, options = line.partition(" - ")[2].split(" ", 2)
    if version == 2:
        return kind == "cgroup2"
    return kind == "cgroup" and controller in options.split(",")


def _is_root(mount: Path) -> bool:
    """Whether this is the root of all cgroups (v2), which has no limit and lacks this file."""
    # Path.exists would raise PermissionError (Python 3.11).
    return not os.path.exists(mount / "cgroup.events")  # noqa: PTH110


def _read_v2(path: Path) -> Level | None:
    kills = _number(path / "memory.events", "oom_kill")
    hit = _number(path / "memory.events", "oom")
    if kills is None or hit is None:
        return None
    return Level(kills=kills, hit=hit, limit=limit_of(path / "memory.max"))


def _read_v1(path: Path) -> Level | None:
    kills = _number(path / "memory.oom_control", "oom_kill")
    if kills is None:
        return None
    hit = _number(path / "memory.failcnt") or 0
    return Level(kills=kills, hit=hit, limit=limit_of(path / "memory.limit_in_bytes"))


def limit_of(path: Path) -> int | None:
    """The limit in a file of a cgroup; None if there is none ("max", or v1's largest number)."""
    number = _number(path)
    return None if number is None or number >= _UNLIMITED else number


def _number(path: Path, name: str | None = None) -> int | None:
    """The number after `name` in a file of `name number` lines, or in the first line without one.

    None if the file or the name is not there, or if no number follows ("max").
    """
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if words and name in {None, words[0]}:
            return int(words[-1]) if words[-1].isdecimal() else None
    return None


# The kernel's buffer has rarely more than a few MiB; a record has at most 8 KiB.
_MOST_BYTES: Final = 32 << 20
_RECORD_BYTES: Final = 16 << 10


def counted(before: MemoryEvents, after: MemoryEvents) -> str:
    """What the counters of our cgroup say, from two readings."""
    cause = oom_cause(before, after)
    if cause is not None:
        return f"the kernel killed a process here for lack of memory: that of {cause.describe()}"
    if after.levels and len(before.levels) == len(after.levels):
        return (
            "the kernel has killed nothing in this cgroup for lack of memory (its counter oom_kill)"
        )
    if after.unlimited and after.host_kills is not None:
        return "the kernel has killed nothing for lack of memory (oom_kill in /proc/vmstat)"
    return "the kernel does not show here whether it killed for lack of memory"


def records(path: Path) -> str:
    """Every record of /dev/kmsg. One read gives one; without a further one it would wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    chunks = []
    size = 0
    try:
        while size < _MOST_BYTES:
            try:
                chunk = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten meanwhile; the next read goes on behind it
                continue
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
    finally:
        os.close(descriptor)
    return b"".join(chunks).decode(errors="replace")

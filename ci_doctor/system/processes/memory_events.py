# SPDX-License-Identifier: Apache-2.0
"""Reads cgroups and /proc/vmstat: whether the kernel has killed for lack of memory, and whose memory it was."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, Self

from msgspec import Struct

_UNLIMITED = 2**60  # cgroup v1 says "none" with the largest number of whole pages
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Level(Struct, frozen=True, kw_only=True):
    """The counters of one cgroup: `kills` of its processes for lack of memory, and how often its own limit was `hit`."""

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
        """`the host`, `its cgroup (limit 8 GiB)`: who ran out of memory."""
        if self.limit is None:
            return "the host"
        gibibytes = self.limit / 2**30
        return (
            f"its cgroup (limit {gibibytes:.3g} GiB)"
            if gibibytes >= 1
            else f"its cgroup (limit {self.limit >> 20} MiB)"
        )


class MemoryEvents(Struct, frozen=True, kw_only=True):
    """The counters of a process's cgroup and of those above it, the nearest first, as far as they can be seen.

    `unlimited` says that it is in no cgroup that could have a limit; then `host_kills`, the kernel's count of all
    kills for lack of memory since boot, speaks. `hierarchical` counters (v2) count for the cgroups below, too.
    """

    levels: tuple[Level, ...] = ()
    hierarchical: bool = True
    unlimited: bool = False
    host_kills: int | None = None

    @classmethod
    def read(cls, pid: int | Literal["self"] = "self") -> Self:
        """As they are now; what cannot be read, or lies outside this container's view, is left out.

        cgroup v2 memory.events, memory.max; v1 memory.oom_control, memory.failcnt, memory.limit_in_bytes; /proc/vmstat.
        """
        host_kills = _number(Path("/proc/vmstat"), "oom_kill")
        try:
            path, version = own_cgroup(Path(f"/proc/{pid}/cgroup").read_text().splitlines())
            top = mount_of(Path("/proc/self/mountinfo").read_text().splitlines(), version, path)
        except OSError:
            return cls(host_kills=host_kills)
        if top is None:
            return cls(host_kills=host_kills)
        mount, below = top
        levels = tuple(_levels(mount, below, version))
        # Only the root of all cgroups lacks this file, and it can have no limit.
        unlimited = version == 2 and not levels and not os.path.exists(mount / "cgroup.events")  # noqa: PTH110
        return cls(
            levels=levels, hierarchical=version == 2, unlimited=unlimited, host_kills=host_kills
        )


def oom_cause(before: MemoryEvents, after: MemoryEvents) -> OomCause | None:
    """What has made the kernel kill a process of that cgroup in between; None where it has not, or nobody can tell. Pure.

    The nearest cgroup whose limit was hit is the cause. Where none in view was, it was the machine: the limits that a
    container cannot see above itself are those of the whole node.
    """
    if after.unlimited:
        return OomCause() if (after.host_kills or 0) > (before.host_kills or 0) else None
    pairs = list(zip(before.levels, after.levels, strict=False))
    if (
        len(before.levels) != len(after.levels)
        or not pairs
        or pairs[0][1].kills <= pairs[0][0].kills
    ):
        return None
    limits = (now.limit for then, now in pairs if now.hit > then.hit and now.limit is not None)
    return OomCause(limit=next(limits, None))


def own_cgroup(lines: Iterable[str]) -> tuple[str, Literal[1, 2]]:
    """The path of the cgroup that counts memory, and its version (cgroups(7)); OSError where there is none. Pure."""
    unified = None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return path, 1
        if not controllers:
            unified = path
    if unified is None:
        raise FileNotFoundError("no cgroup counts memory")
    return unified, 2


def mount_of(lines: Iterable[str], version: Literal[1, 2], path: str) -> tuple[Path, str] | None:
    """Where cgroup `path` is to be seen: a mount point and the path below it, relative; None where it is not. Pure.

    In a container the mount may begin somewhere within the hierarchy (proc_pid_mountinfo(5), field 4, "root").
    """
    found = None
    for line in lines:
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind != ("cgroup2" if version == 2 else "cgroup") or (
            version == 1 and "memory" not in options.split(",")
        ):
            continue
        root, point = (
            _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)
            for field in fields.split(" ")[3:5]
        )
        below = os.path.relpath(path, root) if "/.." not in path + root else ".."
        if not below.startswith(".."):
            found = Path(point), below
    return found


def _levels(mount: Path, below: str, version: Literal[1, 2]) -> Iterator[Level]:
    read = _read_v2 if version == 2 else _read_v1
    path = mount / below
    while True:
        if (level := read(path)) is not None:
            yield level
        if path == mount:
            return
        path = path.parent


def _read_v2(path: Path) -> Level | None:
    kills, hit = _number(path / "memory.events", "oom_kill"), _number(path / "memory.events", "oom")
    if kills is None or hit is None:
        return None
    return Level(kills=kills, hit=hit, limit=_limit(path / "memory.max"))


def _read_v1(path: Path) -> Level | None:
    kills = _number(path / "memory.oom_control", "oom_kill")
    if kills is None:
        return None
    return Level(
        kills=kills,
        hit=_number(path / "memory.failcnt") or 0,
        limit=_limit(path / "memory.limit_in_bytes"),
    )


def _limit(path: Path) -> int | None:
    number = _number(path)
    return number if number is not None and number < _UNLIMITED else None


def _number(path: Path, name: str | None = None) -> int | None:
    """The number after `name` in a file of `name number` lines, or the file's only one."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return None
    words = next((line for line in lines if line and (name is None or line[0] == name)), [])
    return int(words[-1]) if words and words[-1].isdecimal() else None

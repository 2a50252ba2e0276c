# SPDX-License-Identifier: Apache-2.0
"""Reads cgroups, v1 and v2: which one this process is in, and the limits of it and of those above."""

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from ci_doctor.machine.host import ROOT, content_of, number_of, numbers_of
from ci_doctor.system.processes.kernel_words import Version, limit_of, mount_of, own_cgroup


class UnknownCgroupError(Exception):
    """The cgroup, or a limit of it, cannot be known; the text is the reason, one clause."""


class CgroupLevels(Struct, frozen=True, kw_only=True):
    """The directories of this process's cgroup and of those above it in view, the nearest first.

    A container sees its own cgroup alone, or a part of those above.
    """

    version: Version
    directories: tuple[Path, ...]


class MemoryLevel(Struct, frozen=True, kw_only=True):
    """The limits and the use of one cgroup, in bytes; a limit is None if there is none.

    `used` leaves out what the kernel would take back first (inactive files), as the kubelet does.
    """

    directory: Path
    limit_file: Path
    limit: int | None
    used: int

    @property
    def left(self) -> int | None:
        """Bytes until the limit; None without one."""
        return None if self.limit is None else max(0, self.limit - self.used)


class CpuQuota(Struct, frozen=True, kw_only=True):
    """The smallest quota in view, in CPUs, and its file."""

    file: Path
    cpus: float


def read_cgroups(controller: str, root: Path = ROOT) -> CgroupLevels:
    """The cgroups that `controller` ("memory", "cpu", "cpuset", "pids") counts this process in.

    `root` stands above /proc and /sys. Raises UnknownCgroupError if there is no cgroup, or none in view.
    """
    own = root / "proc" / "self"
    try:
        path, version = own_cgroup((own / "cgroup").read_text().splitlines(), controller)
        mounts = (own / "mountinfo").read_text().splitlines()
    # ValueError: a line that is none of cgroups(7).
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnknownCgroupError(f"the cgroup of this process is unknown: {reason}") from error
    place = mount_of(mounts, version, path, controller)
    if place is None:
        raise UnknownCgroupError(
            f"the limits of this process's cgroup cannot be seen: no mount shows {path} ({controller})"
        )
    point, below = place
    top = root / point.relative_to("/")
    directory = top / below
    # A later mount above it hides it, and mountinfo names it nevertheless.
    if not directory.is_dir():
        raise UnknownCgroupError(
            f"the limits of this process's cgroup cannot be seen: {directory} is not there"
        )
    levels = [directory]
    while directory != top:
        directory = directory.parent
        levels.append(directory)
    return CgroupLevels(version=version, directories=tuple(levels))


def memory_levels(cgroups: CgroupLevels) -> Iterator[MemoryLevel]:
    """The memory of each level of `read_cgroups("memory")` that has the controller.

    Raises UnknownCgroupError if the files of a level that has it cannot be read.
    """
    read: Callable[[Path], MemoryLevel | None] = _read_v2 if cgroups.version == 2 else _read_v1
    for directory in cgroups.directories:
        level = read(directory)
        if level is not None:
            yield level


def _read_v2(directory: Path) -> MemoryLevel | None:
    limit_file = directory / "memory.max"
    current = _current(directory / "memory.current", limit_file)
    if current is None:
        return None
    inactive = numbers_of(directory / "memory.stat").get("inactive_file", 0)
    return MemoryLevel(
        directory=directory,
        limit_file=limit_file,
        limit=limit_of(limit_file),
        used=max(0, current - inactive),
    )


def _read_v1(directory: Path) -> MemoryLevel | None:
    limit_file = directory / "memory.limit_in_bytes"
    current = _current(directory / "memory.usage_in_bytes", limit_file)
    if current is None:
        return None
    inactive = numbers_of(directory / "memory.stat").get("total_inactive_file", 0)
    return MemoryLevel(
        directory=directory,
        limit_file=limit_file,
        limit=limit_of(limit_file),
        used=max(0, current - inactive),
    )


def _current(usage_file: Path, limit_file: Path) -> int | None:
    """The bytes in use; None for a level without the controller, which has no such file."""
    current = number_of(usage_file)
    if current is None and not usage_file.exists():
        return None
    if current is None or not content_of(limit_file).strip():
        raise UnknownCgroupError(f"the memory limit of {limit_file.parent} cannot be read")
    return current


def smallest_quota(cgroups: CgroupLevels) -> CpuQuota | None:
    """The quota of `read_cgroups("cpu")` that bites first; None if no level has one.

    cgroup-v2, "CPU Interface Files": microseconds of CPU time in a period.
    """
    smallest = None
    for directory in cgroups.directories:
        if cgroups.version == 2:
            file = directory / "cpu.max"
            # `max 100000` is no quota.
            numbers = [int(word) for word in content_of(file).split() if word.isdecimal()]
            quota, period = numbers if len(numbers) == 2 else (None, None)
        else:
            file = directory / "cpu.cfs_quota_us"
            quota = number_of(file)
            period = number_of(directory / "cpu.cfs_period_us")
        # v1 writes -1 for none.
        if not quota or not period or quota < 0:
            continue
        cpus = round(quota / period, 2)
        if smallest is None or cpus < smallest.cpus:
            smallest = CpuQuota(file=file, cpus=cpus)
    return smallest

# SPDX-License-Identifier: Apache-2.0
"""Reads the host: small files of the kernel, CPUs, resource limits, locale, release; cgroups v1 and v2 with their limits."""

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.system.processes.kernel_words import Version, limit_of, mount_of, own_cgroup

ROOT = Path("/")


# By the names of limits.conf(5).
_LIMITS: Mapping[str, int] = {
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "memlock": resource.RLIMIT_MEMLOCK,
    "stack": resource.RLIMIT_STACK,
    "core": resource.RLIMIT_CORE,
    "as": resource.RLIMIT_AS,
}


class ResourceLimit(Struct, frozen=True, kw_only=True):
    """A soft and a hard limit (getrlimit(2)); resource.RLIM_INFINITY is none."""

    soft: int
    hard: int

    @property
    def is_unlimited(self) -> bool:
        """Whether the soft limit is none."""
        return self.soft == resource.RLIM_INFINITY

    def shown(self) -> str:
        """`4096`, or `unlimited`."""
        return "unlimited" if self.is_unlimited else str(self.soft)


def content_of(path: Path) -> str:
    """The file's text; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def number_of(path: Path) -> int | None:
    """The whole number in a file; None if it cannot be read, or holds something else ("max")."""
    return _number(content_of(path))


def numbers_of(path: Path) -> dict[str, int]:
    """The numbers of a file with `name number` lines, such as meminfo; empty if it cannot be read.

    A colon after the name and a unit after the number are left out.
    """
    numbers = {}
    for line in content_of(path).splitlines():
        words = line.replace(":", " ").split()
        number = _number(words[1]) if len(words) > 1 else None
        if number is not None:
            numbers[words[0]] = number
    return numbers


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def fields_of(path: Path, separator: str, *, is_first_block: bool = False) -> dict[str, str]:
    """The `key SEPARATOR value` lines of a file; of two with one key the first. Raises OSError.

    Quotes around a value are left out (os-release(5)). `is_first_block`: up to the first empty line,
    which of /proc/cpuinfo is one CPU: a large machine writes hundreds of kilobytes, all alike.
    """
    fields: dict[str, str] = {}
    with path.open(errors="replace") as file:
        for line in file:
            if is_first_block and not line.strip():
                break
            key, found, value = line.partition(separator)
            if found:
                fields.setdefault(key.strip(), value.strip().strip("\"'"))
    return fields


def first_cpu(proc: Path = ROOT / "proc") -> dict[str, str]:
    """The fields of the first CPU in /proc/cpuinfo; empty if it cannot be read."""
    try:
        return fields_of(proc / "cpuinfo", ":", is_first_block=True)
    except OSError:
        return {}


def libc_version() -> str | None:
    """Such as `glibc 2.36`; None for another C library."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):  # another libc has no such name
        return None


def kernel_parameter_file(name: str, root: Path = ROOT) -> Path:
    """The file of a sysctl such as `vm.max_map_count`."""
    return root.joinpath("proc", "sys", *name.split("."))


def chosen_word(text: str) -> str:
    """The value of a kernel's file; of a list of words the one in brackets."""
    words = text.split()
    for word in words:
        if word.startswith("[") and word.endswith("]"):
            return word[1:-1]
    return " ".join(words)


def resource_limits() -> dict[str, ResourceLimit]:
    """The limits of this process, which the job inherits, by the names of limits.conf(5)."""
    limits = {}
    for name, number in _LIMITS.items():
        soft, hard = resource.getrlimit(number)
        limits[name] = ResourceLimit(soft=soft, hard=hard)
    return limits


def effective_locale(environ: Mapping[str, str]) -> str:
    """The locale of characters: LC_ALL, else LC_CTYPE, else LANG; empty if none is set."""
    return environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""


# --- cgroups, v1 and v2: which one this process is in, the limits of it and of those above ---


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

# SPDX-License-Identifier: Apache-2.0
"""Reads cgroups: the limits of memory and of CPU time that apply to this process."""

from collections.abc import Callable, Iterator
from pathlib import Path

from ci_doctor.identity.identity import Identity
from ci_doctor.render.formatting import number, size
from ci_doctor.system.processes.memory_events import mount_of, own_cgroup

_NONE = "none"
# cgroup v1 writes "none" as the largest number of whole pages.
_UNLIMITED = 2**60


def control_group(root: Path = Path("/")) -> Identity:
    """`limit.memory` and `limit.cpu`: the lowest of the cgroup and of those above it.

    `none` without a limit. A container does not see the limits above its own.
    """
    try:
        directories, version = _directories(root)
    except OSError as error:
        return _unknown(error.strerror or str(error))
    except ValueError as error:
        return _unknown(str(error))
    if version == 1:
        reason = "cgroup v1 counts CPU time elsewhere"
        memory = _lowest(directories, "memory.limit_in_bytes", _bytes)
        return _facts(memory, None, reason)
    return _facts(
        _lowest(directories, "memory.max", _bytes), _lowest(directories, "cpu.max", _cpus)
    )


def _unknown(why: str) -> Identity:
    reason = f"the cgroup cannot be read: {why}"
    return Identity.of({}, {"limit.memory": reason, "limit.cpu": reason})


def _facts(memory: float | None, cpus: float | None, cpu_unknown: str | None = None) -> Identity:
    facts = {"limit.memory": _NONE if memory is None else size(int(memory))}
    if cpu_unknown is not None:
        return Identity.of(facts, {"limit.cpu": cpu_unknown})
    facts["limit.cpu"] = _NONE if cpus is None else f"{number(cpus)} CPUs"
    return Identity.of(facts)


def _directories(root: Path) -> tuple[list[Path], int]:
    """The directories of the own cgroup and of those above it, and the version of cgroups."""
    own = root / "proc" / "self"
    path, version = own_cgroup((own / "cgroup").read_text().splitlines())
    mount = mount_of((own / "mountinfo").read_text().splitlines(), version, path)
    if mount is None:
        raise FileNotFoundError("nothing shows it here")
    point, below = mount
    # A recorded tree lies below another root.
    top = root / str(point).lstrip("/")
    directory = top / below
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} is not there")
    return list(_up_to(directory, top)), version


def _up_to(directory: Path, top: Path) -> Iterator[Path]:
    yield directory
    while directory not in {top, directory.parent}:
        directory = directory.parent
        yield directory


def _lowest(
    directories: list[Path], name: str, parse: Callable[[str], float | None]
) -> float | None:
    limits = []
    for directory in directories:
        try:
            text = (directory / name).read_text().strip()
        except OSError:  # the root of all cgroups has no limits
            continue
        limit = parse(text)
        if limit is not None:
            limits.append(limit)
    return min(limits, default=None)


def _bytes(text: str) -> float | None:
    if not text.isdigit() or int(text) >= _UNLIMITED:
        return None
    return int(text)


def _cpus(text: str) -> float | None:
    """`200000 100000`: microseconds of CPU time in a period (cgroup-v2, "CPU Interface Files")."""
    quota, _, period = text.partition(" ")
    if not quota.isdigit() or not period.isdigit() or not int(period):
        return None
    return int(quota) / int(period)

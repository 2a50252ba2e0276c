# SPDX-License-Identifier: Apache-2.0
"""Reads which cgroups this process is in, by controller: its own, and those above it."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.system.processes.memory_events import Version, mount_of, own_cgroup


class CgroupLevels(Struct, frozen=True, kw_only=True):
    """The directories of this process's cgroup and of those above it in view, the nearest first.

    A container sees its own cgroup alone, or a part of those above.
    """

    version: Version
    directories: tuple[Path, ...]


def read_cgroups(context: CheckContext, controller: str) -> CgroupLevels:
    """The cgroups that `controller` ("memory", "cpu", "cpuset", "pids") counts this process in.

    Raises UndeterminedError if they cannot be known: there is no cgroup, or none in view.
    """
    try:
        lines = (context.proc / "self" / "cgroup").read_text().splitlines()
        path, version = own_cgroup(lines, controller)
        mounts = (context.proc / "self" / "mountinfo").read_text().splitlines()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UndeterminedError(f"the cgroup of this process is unknown: {reason}") from error
    place = mount_of(mounts, version, path, controller)
    if place is None:
        raise UndeterminedError(
            f"the limits of this process's cgroup cannot be seen: no mount shows {path} ({controller})"
        )
    point, below = place
    top = context.root / point.relative_to("/")
    # A later mount above it hides it, and mountinfo names it nevertheless.
    if not (top / below).is_dir():
        raise UndeterminedError(
            f"the limits of this process's cgroup cannot be seen: {top / below} is not there"
        )
    return CgroupLevels(version=version, directories=tuple(_upwards(top, below)))


def _upwards(top: Path, below: str) -> list[Path]:
    directory = top / below
    levels = [directory]
    while directory != top:
        directory = directory.parent
        levels.append(directory)
    return levels

# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: who the processes on a GPU are. In a container the driver's pids may be others'."""

import os
import pwd
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.gpu.smi_log import SmiProcess

_LONGEST: Final = 100
_MOST_FILES: Final = 4096


class GpuProcess(Struct, frozen=True, kw_only=True):
    """A process on a GPU.

    `user`, `command` and `age_s` (seconds) are None if /proc does not show them. `is_here` is False
    if the pid is none of this pid namespace's: then the process runs outside of this container.
    """

    process: SmiProcess
    is_here: bool
    user: str | None = None
    command: str | None = None
    age_s: float | None = None


def describe_process(process: SmiProcess, proc: Path) -> GpuProcess:
    """What /proc says of `process`."""
    place = proc / str(process.pid)
    try:
        owner = place.stat().st_uid
    except OSError:
        return GpuProcess(process=process, is_here=False)
    if _uses_gpu(place) is False:  # another process has this pid here
        return GpuProcess(process=process, is_here=False)
    return GpuProcess(
        process=process,
        is_here=True,
        user=_name(owner),
        command=_command(place),
        age_s=_age_s(place, proc),
    )


def _uses_gpu(place: Path) -> bool | None:
    """Whether it has a file of the driver open; None if this user may not see its files."""
    try:
        names = os.listdir(place / "fd")  # noqa: PTH208 - a server has thousands of them
    except OSError:
        return None
    for name in names[:_MOST_FILES]:
        try:
            target = os.readlink(place / "fd" / name)  # noqa: PTH115
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            return True
    return False


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _command(place: Path) -> str | None:
    try:
        words = (place / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return None
    text = b" ".join(words).decode(errors="replace")
    return text[:_LONGEST] or None


def _age_s(place: Path, proc: Path) -> float | None:
    """Its start is in clock ticks since boot: field 22 of proc_pid_stat(5)."""
    try:
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        uptime_s = float((proc / "uptime").read_text().split()[0])
        started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    return max(0.0, uptime_s - started_s)

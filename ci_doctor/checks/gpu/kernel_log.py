# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: reads the kernel's log by /dev/kmsg, else `dmesg`, else syslog's file."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.dated_lines import dated_lines
from ci_doctor.checks.gpu.xid_lines import DriverLine, driver_lines
from ci_doctor.system.processes.kernel_words import records

_FILE = "var/log/kern.log"
_FILE_END = 4 << 20


def read_kernel_log(context: CheckContext) -> tuple[DriverLine, ...]:
    """The NVIDIA driver's lines that the kernel's buffer still has, the oldest first.

    Raises UndeterminedError with the reason if nothing lets this user read it.
    """
    uptime_s = _uptime_s(context.proc)
    try:
        return tuple(driver_lines(records(context.dev / "kmsg"), uptime_s))
    except OSError as error:
        reason = f"{context.dev}/kmsg: {error.strerror}"
    try:
        return tuple(driver_lines(_dmesg(context), uptime_s))
    except UndeterminedError as error:
        reason += f"; {error}"
    try:
        return tuple(dated_lines(_end_of(context.root / _FILE), datetime.now(UTC).astimezone()))
    except OSError as error:
        reason += f"; /{_FILE}: {error.strerror}"
        raise UndeterminedError(f"the kernel's log cannot be read ({reason})") from error


def _dmesg(context: CheckContext) -> str:
    """Raises UndeterminedError if it is missing or fails."""
    if shutil.which("dmesg", path=context.environ.get("PATH", "")) is None:
        raise UndeterminedError("no `dmesg` on PATH")
    ran = context.run(("dmesg",))
    if ran.exit_code != 0:
        raise UndeterminedError(ran.last_words)
    return ran.stdout


def _end_of(path: Path) -> str:
    """The last part of a file that may be long. Members of the group adm may read this one."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _FILE_END))
        return file.read().decode(errors="replace")


def _uptime_s(proc: Path) -> float | None:
    try:
        return float((proc / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None

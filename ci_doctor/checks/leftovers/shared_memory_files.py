# SPDX-License-Identifier: Apache-2.0
"""Reads /dev/shm: files that no process has open."""

import contextlib
import os
import shlex
import stat
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.leftovers.rules import STALE_SHARED_MEMORY
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount, duration, size
from ci_doctor.services.leaks.holding import in_use
from ci_doctor.system import clock

# One that is just being made may not be open yet.
_LEAST_AGE_S = 600.0
# Of the room in /dev/shm: then the next server may not find enough.
_MUCH = 0.1
_SHOWN = 10
# include/linux/proc_ns.h: the inodes of the first namespaces, those of the host.
_HOST_IPC = 0xEFFFFFFF
_HOST_PID = 0xEFFFFFFC


class SharedMemoryFile(Struct, frozen=True, kw_only=True):
    """A file in /dev/shm: `size` is bytes that it holds, `age_s` seconds since its last change."""

    path: str
    size: int
    age_s: float


def _run(context: CheckContext) -> CheckResult:
    # Resolved, as /proc shows the paths of open files: it may be a link to /run/shm.
    folder = (context.dev / "shm").resolve()
    if not folder.is_dir():
        return CheckResult(summary=f"there is no {folder}")
    files = _candidates(folder)
    if not files:
        return CheckResult(summary=f"no old file of this user in {folder}")
    if _hides_processes(context):
        raise UndeterminedError(
            f"{folder} is shared with the host, whose processes this container does not see"
        )
    used = in_use([file.path for file in files])
    left = [file for file in files if file.path not in used]
    if not left:
        return CheckResult(summary=f"every file in {folder} is open in a process")
    fault = _left(folder, left)
    figures = {"files": len(left), "bytes": sum(file.size for file in left)}
    return CheckResult(summary=fault.finding.summary, problems=(fault,), figures=figures)


def _candidates(folder: Path) -> list[SharedMemoryFile]:
    """Old files of this user; root sees every process, so it may judge those of all."""
    now = clock.epoch()
    own = os.geteuid()
    files = []
    for path in sorted(folder.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            age_s = now - max(status.st_mtime, status.st_ctime)
            is_ours = own in {0, status.st_uid}
            if stat.S_ISREG(status.st_mode) and is_ours and age_s >= _LEAST_AGE_S:
                size_bytes = status.st_blocks * 512  # stat(2)
                files.append(SharedMemoryFile(path=str(path), size=size_bytes, age_s=age_s))
    return files


def _hides_processes(context: CheckContext) -> bool:
    """Whether /dev/shm may be the host's (`--ipc=host`), and /proc shows our container alone."""
    space = context.proc / "self" / "ns"
    try:
        is_shared = (space / "ipc").stat().st_ino == _HOST_IPC
        return is_shared and (space / "pid").stat().st_ino != _HOST_PID
    except OSError:
        return False


def _left(folder: Path, left: list[SharedMemoryFile]) -> Problem:
    left = sorted(left, key=lambda file: -file.size)
    total = sum(file.size for file in left)
    usage = os.statvfs(folder)
    severity = Severity.NOTE
    if total > _MUCH * usage.f_blocks * usage.f_frsize:
        severity = Severity.WARNING
    lines = [
        f"{file.path}, {size(file.size)}, {duration(file.age_s)} old" for file in left[:_SHOWN]
    ]
    if len(left) > _SHOWN:
        lines.append(f"and {len(left) - _SHOWN} more")
    return problem(
        STALE_SHARED_MEMORY,
        f"{amount(len(left), 'file')} in {folder} that no process has open, {size(total)}",
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=ShellCommand(shlex.join(["rm", *(file.path for file in left)])),
        severity=severity,
    )


CHECK = DoctorCheck(
    id="leftovers/shared-memory",
    title="files in /dev/shm that no process has open",
    run=_run,
)

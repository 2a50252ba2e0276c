# SPDX-License-Identifier: Apache-2.0
"""Reads a file that names a process: one to wait for, or one that a service left in the background."""

import asyncio
import contextlib
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.render.formatting import duration
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.instance import Instance
from ci_doctor.system import clock
from ci_doctor.system.files.growing import FileWatch
from ci_doctor.system.processes.external_process import ExternalProcess
from ci_doctor.system.processes.tree import OwnTree

# A pidfile holds one line; by mistake any file may be named, such as a log of gigabytes.
_MOST_BYTES = 4096
_LONGEST_SHOWN = 40
# The kernel reports a change at once, but not that of another machine on a network file system.
_LONGEST_REST_S = 0.5
# Between the clock of a file system and ours.
_CLOCKS_S = 2.0
LARGEST_PID = 2**22  # proc_sys_kernel(5), pid_max


def read_pidfile(path: Path) -> int | str:
    """The first word of `path`, or why that is no process to wait for, as a clause."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return f"{path} does not exist"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    word = next(iter(text.split()), "")
    if not word:
        return f"{path} is empty"
    # isdigit() alone also takes digits of other scripts, and int() a sign and underscores.
    is_number = word.isascii() and word.isdigit()
    if not is_number or not 1 < int(word) <= LARGEST_PID:
        return f"{path} holds {word[:_LONGEST_SHOWN]!r}, which is no process id"
    return int(word)


def check_age(path: Path, process: ExternalProcess) -> None:
    """Raises UsageError if `path` is older than `process`: another one had the pid then."""
    try:
        written = path.stat().st_mtime
    except OSError:
        return
    started = clock.epoch() - (clock.now() - process.started_at)
    if written < started - _CLOCKS_S:
        raise UsageError(
            f"{path} is stale: {process.name} started {duration(started - written)} after it was "
            "written, so it names an earlier process",
            hint="remove the file before the server starts, or name the process with --pid",
        )


async def await_pidfile(path: Path, limit_s: float) -> int | str:
    """The process id once the file holds one; why it does not, if `limit_s` is over first.

    The file is read at least once.
    """
    time_limit = BusyTimeout(limit_s)
    changed = asyncio.Event()
    watch = FileWatch(path, changed.set)
    try:
        while True:
            changed.clear()
            content = read_pidfile(path)
            left_s = time_limit.left_s()
            if isinstance(content, int) or left_s <= 0:
                return content
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), min(left_s, _LONGEST_REST_S))
    finally:
        watch.close()


# A daemon writes its pidfile within milliseconds of its start.
_PAUSE_S = 0.02


async def follow(instance: Instance, tree: OwnTree) -> ExternalProcess:
    """Wait until the pidfile of `instance` names a process of ours, and open its pidfd.

    Ends by cancellation only.
    """
    assert instance.filled.pidfile is not None  # noqa: S101 - the caller has checked it
    while True:
        pid = read_pidfile(instance.filled.pidfile)
        # Adopted by the guardian, a daemon stays in the tree although its parent has ended.
        for kin in tree.living():
            # Only ours: the pidfile of an earlier job may name any process.
            process = ExternalProcess.open(kin.pid) if kin.pid == pid else None
            if process is not None and process.kin == kin:
                return process
            if process is not None:
                process.close()
        await asyncio.sleep(_PAUSE_S)

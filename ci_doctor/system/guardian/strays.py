# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: finds what a guardian had started when it was killed, and had not told of."""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from ci_doctor.system.processes.children import children_of
from ci_doctor.system.processes.process_table import Kin, look_up

# How the guardian's child is called between fork and exec.
_GUARDIAN = "ci_doctor.system.guardian.main"
_NAME_BYTES = 15  # of a name in the process table: TASK_COMM_LEN in linux/sched.h


def ticks_now() -> int:
    """Clock ticks since boot, as the process table has the start of a process."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def find_stray(words: Sequence[str], known: Collection[int], since: int) -> int | None:
    """The pid of our new child that runs `words` or has run them; None if they were never run.

    Once the guardian is gone its children are ours. A child that was about to run `words` is killed.
    `known` are children that cannot be it, and it was started at the tick `since` or later. Others
    may be orphans of services, which are older or run something else.
    """
    for pid in children_of(os.getpid()):
        kin = look_up(pid)
        if pid in known or kin is None or kin.started < since:
            continue
        line = _command_line(pid)
        if any(_GUARDIAN in word for word in line):
            _end(pid)
        elif _runs(line, words) or _has_run(kin, words):
            return pid
    return None


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        # A child of ours that nobody has waited for: its pid is its own.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _command_line(pid: int) -> list[str]:
    """That of a process; empty once it has ended."""
    try:
        content = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    # Each argument ends with a NUL (proc_pid_cmdline(5)).
    return [os.fsdecode(word) for word in content.split(b"\0")[:-1]]


def _runs(line: Sequence[str], words: Sequence[str]) -> bool:
    # Of a script, its interpreter stands before it, and its path in place of its name.
    own = list(words[1:])
    is_same = line[len(line) - len(own) :] == own and len(line) > len(own)
    name = Path(words[0]).name if words else ""
    return is_same and any(Path(word).name == name for word in line[: len(line) - len(own)])


def _has_run(kin: Kin, words: Sequence[str]) -> bool:
    """Whether it has ended, by the name that exec gave it."""
    if not kin.ended or not words:
        return False
    name = os.fsencode(Path(words[0]).name)[:_NAME_BYTES]
    return os.fsencode(kin.name) == name

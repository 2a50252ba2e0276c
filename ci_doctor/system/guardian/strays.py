# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: ends what a guardian had started when it was killed, and had not told of."""

import contextlib
import os
import signal
from collections.abc import Collection, Sequence
from pathlib import Path

from ci_doctor.system.processes.children import children_of

# How the guardian's child is called between fork and exec.
_GUARDIAN = "ci_doctor.system.guardian.main"


def end_strays(words: Sequence[str], known: Collection[int]) -> None:
    """Kill and reap our new children that run `words`, or were about to.

    Once the guardian is gone its children are ours. `known` are those that may stay. Others may be
    orphans of services, which run something else.
    """
    for pid in children_of(os.getpid()):
        if pid in known or not _runs(pid, words):
            continue
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            # A child of ours that nobody has waited for: its pid is its own.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _runs(pid: int, words: Sequence[str]) -> bool:
    try:
        content = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    # Each argument ends with a NUL (proc_pid_cmdline(5)).
    line = [os.fsdecode(word) for word in content.split(b"\0")[:-1]]
    # Of a script, its interpreter stands before it, and its path in place of its name.
    own = list(words[1:])
    is_same = line[len(line) - len(own) :] == own and len(line) > len(own)
    name = Path(words[0]).name if words else ""
    has_name = any(Path(word).name == name for word in line[: len(line) - len(own)])
    return (is_same and has_name) or any(_GUARDIAN in word for word in line)

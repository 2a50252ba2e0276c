# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: calls a function in a copy of this process, which goes on beside it.

A thread would share the interpreter's lock with the work, and what it starts would look like a
process of the job. The copy is there before the job's first process, and is killed as a whole.
"""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import IO, NoReturn, Self

from ci_doctor.system.begun_call import TimedOut
from ci_doctor.system.files.unnamed_file import unnamed_file
from ci_doctor.system.processes.children import ChildrenLook

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ForkedCall:
    """A function that has been called in a process of its own, until `result` is asked for."""

    def __init__(self, pid: int, pidfd: int, output: IO[bytes]) -> None:
        self._pid = pid
        self._pidfd = pidfd
        self._output = output

    @classmethod
    def begin(cls, function: Callable[[], bytes]) -> Self | None:
        """Call `function` in a new process; None if the system has none for it.

        Also None beside other threads: a copy would hold the locks that they hold, for ever.
        """
        if threading.active_count() > 1:
            return None
        parent = os.getpid()
        with contextlib.ExitStack() as stack:
            try:
                output = stack.enter_context(unnamed_file())
                pid = os.fork()
            except OSError:
                return None
            if pid == 0:
                _call(function, output.fileno(), parent)
            stack.pop_all()
        try:
            return cls(pid, os.pidfd_open(pid), output)
        except OSError:
            output.close()
            _kill(pid)
            os.waitpid(pid, 0)
            return None

    def has_ended(self, limit_s: float = 0.0) -> bool:
        """Whether its process has ended, or does within `limit_s` seconds."""
        end = select.poll()
        end.register(self._pidfd, select.POLLIN)
        return bool(end.poll(limit_s * 1000))

    def result(self, limit_s: float) -> bytes:
        """What the function returned; nothing if it failed. May be called once.

        Raises TimedOut after `limit_s` seconds, and its process is killed.
        """
        if not self.has_ended(limit_s):
            self.end()
            raise TimedOut(f"no answer within {limit_s:g} s")
        with self._output:
            self._output.seek(0)
            content = self._output.read()
        self.end()
        return content

    def end(self) -> None:
        """Kill its process if it has not ended."""
        self._output.close()
        if not self.has_ended():
            _kill(self._pid)
        os.close(self._pidfd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _call(function: Callable[[], bytes], output: int, parent: int) -> NoReturn:
    """In the new process: write what `function` returns to `output`, whole or not at all."""
    try:
        _detach(output, parent)
        result = function()
        os.pwrite(output, result, 0)
    # Nobody is there to hear of it: without a result the call has failed.
    finally:
        os._exit(0)


def _detach(output: int, parent: int) -> None:
    """Have nothing of the job in hand: no terminal, no stream of its output, no lock of the report."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.closerange(3, output)
    os.closerange(output + 1, os.sysconf("SC_OPEN_MAX"))
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it has ended before the kernel was told
        os._exit(0)


def _kill(pid: int) -> None:
    """Kill a copy, and the programs that it runs in sessions of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
        os.kill(pid, signal.SIGSTOP)  # it starts nothing more
        for child in ChildrenLook().of(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)

# SPDX-License-Identifier: Apache-2.0
"""Acts on threads and processes: calls a function that may hang, and waits for a limited time.

In this thread, in another one, or in a copy of this process that goes on beside it. A thread would
share the interpreter's lock with the work, and what it starts would look like a process of the job.
The copy is there before the job's first process, and is killed as a whole.
"""

import concurrent.futures
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import IO, Generic, NoReturn, Self, TypeVar

from ci_doctor.system.files.access import unnamed_file
from ci_doctor.system.processes.process import has_ended
from ci_doctor.system.processes.process_table import ChildrenLook


class TimeIsUp(BaseException):
    """The time is over. `except Exception` must not hold it up."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp in the context after `seconds`; of the main thread alone, and not nested."""
    earlier = signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # None stands for a handler that was not installed from Python.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if earlier is None else earlier)


def _raise(_number: int, _frame: object) -> None:
    raise TimeIsUp


T = TypeVar("T")


class TimedOut(Exception):  # noqa: N818 - as Terminated, it says what happened
    """The function has not returned in time; its thread may go on until the process ends."""


class BegunCall(Generic[T]):
    """A function that has been called in a thread of its own, until `result` is asked for."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._future: concurrent.futures.Future[T] = concurrent.futures.Future()
        # A daemon: the process does not wait for it at its end.
        thread = threading.Thread(target=self._call, daemon=True, name="ci-doctor-call")
        try:
            thread.start()
        except RuntimeError:  # no thread is left on this machine
            self._call()

    def result(self, limit_s: float | None = None) -> T:
        """What the function returns. Raises what it raises, and TimedOut after `limit_s` seconds."""
        # Not the time-out of result(): the function may raise the same, or end just then.
        if not concurrent.futures.wait([self._future], limit_s).done:
            raise TimedOut(f"no answer within {limit_s or 0:g} s")
        return self._future.result()

    def _call(self) -> None:
        try:
            self._future.set_result(self._function())
        # It is raised again in the thread that asks for the result.
        except BaseException as error:  # noqa: BLE001
            self._future.set_exception(error)


def bounded(function: Callable[[], T], limit_s: float) -> T:
    """What `function` returns. Raises what it raises, and TimedOut after `limit_s` seconds."""
    return BegunCall(function).result(limit_s)


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
        return has_ended(self._pidfd, limit_s)

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

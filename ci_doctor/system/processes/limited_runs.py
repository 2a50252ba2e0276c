# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and threads: runs programs in sessions of their own, and calls functions, for a limited time."""

import concurrent.futures
import contextlib
import os
import resource
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Generic, NoReturn, Self, TypeVar

from msgspec import Struct

from ci_doctor.system import clock
from ci_doctor.system.files.access import unnamed_file
from ci_doctor.system.processes.cpu_wait import CpuWaits, extended
from ci_doctor.system.processes.process import has_ended
from ci_doctor.system.processes.process_table import ChildrenLook
from ci_doctor.system.secrets.private_keys import keyless

# For a caller that is interrupted by `stop`.
LONGEST_S: Final = 600.0
_STOP_S: Final = 0.5
_MOST_BYTES: Final = 16 * 1024 * 1024
# What a program may write after its last signal, such as the stacks of its threads.
_LAST_S: Final = 1.0


class SeparateRun(Struct, frozen=True, kw_only=True):
    """How a run ended.

    `exit_code` is negative for a signal, and None if the time limit ended it. Of each output the
    last 16 MiB are kept.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    duration_s: float

    @property
    def last_words(self) -> str:
        """The last line that is not blank, on stderr or else on stdout, or how the run ended."""
        for text in (self.stderr, self.stdout):
            lines = keyless(text.strip()).splitlines()
            if lines:
                return lines[-1].strip()
        if self.exit_code is None:
            return f"no answer within {self.duration_s:.1f} s"
        return f"exit code {self.exit_code}, no output"


class LimitedRuns:
    """The programs that run at present, so that an interruption can end all of them."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._groups: dict[int, tuple[int, str]] = {}  # pid -> the thread, the program
        self._is_stopped = False

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        timeout_s: float = LONGEST_S,
        last_signal: signal.Signals | None = None,
        is_together: bool = False,
    ) -> SeparateRun:
        """Run `words` in a session of its own, which is killed after `timeout_s` seconds.

        Seconds in which the program waited for a CPU extend that. The session is killed too if the
        program ends by itself and leaves processes there. `last_signal` is sent to the program at
        the time limit, a second before the session is killed. `is_together`: stderr stands in stdout,
        as both were written. Raises OSError if it cannot be started.
        """
        began = clock.now()
        # Output goes to files: a child that keeps a pipe open would delay us.
        with unnamed_file() as stdout, unnamed_file() as stderr:
            process = self._start(words, stdout, stdout if is_together else stderr, cwd, environ)
            is_over = False
            try:
                is_over = _wait(process.pid, timeout_s)
                if not is_over and last_signal is not None:
                    self._warn(process.pid, last_signal)
            finally:
                exit_code = self._end(process)
            return SeparateRun(
                exit_code=exit_code if is_over else None,
                stdout=_text(stdout),
                stderr=_text(stderr),
                duration_s=clock.now() - began,
            )

    def stop(self) -> None:
        """Kill what runs, and let nothing start any more.

        What another user owns by now (sudo) cannot be killed, and is left.
        Returns once all has ended, or after half a second: the kernel may hold a process longer.
        """
        with self._lock:
            self._is_stopped = True
            for group in self._groups:
                _kill(group)
            self._lock.wait_for(lambda: not self._groups, timeout=_STOP_S)

    def running_in(self, thread: int) -> str | None:
        """The program that the thread with this identity waits for, as a shell would be given it."""
        with self._lock:
            for owner, program in self._groups.values():
                if owner == thread:
                    return program
        return None

    def pids(self) -> tuple[int, ...]:
        """The programs that run now."""
        with self._lock:
            return tuple(self._groups)

    def _start(
        self,
        words: Sequence[str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        cwd: Path,
        environ: Mapping[str, str],
    ) -> "subprocess.Popen[bytes]":
        # Under the lock, because a program that starts after `stop` would be left.
        with self._lock:
            if self._is_stopped:
                raise InterruptedError("ci-doctor is being stopped")
            process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,
            )
            self._groups[process.pid] = (threading.get_ident(), shlex.join(words))
        return process

    def _warn(self, pid: int, last_signal: signal.Signals) -> None:
        """Send `last_signal` to the program, and wait a little for what it makes of it."""
        # SIGABRT would leave a core file of gigabytes in the job's directory.
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(PermissionError):
            os.kill(pid, last_signal)
        _has_ended(pid, _LAST_S)

    def _end(self, process: "subprocess.Popen[bytes]") -> int | None:
        """Kill what is left of the group, and return the exit status.

        None for a program that goes on because it cannot be killed.
        """
        # Not reaped yet, so the group is still ours.
        with self._lock:
            del self._groups[process.pid]
            self._lock.notify_all()
            is_killed = _kill(process.pid)
        return process.wait() if is_killed else process.poll()


def run_limited(
    command: Sequence[str], *, timeout_s: float, cwd: Path, environ: Mapping[str, str]
) -> SeparateRun:
    """Run `command` in a session of its own, with one output, as `LimitedRuns.run` does."""
    return LimitedRuns().run(
        command, cwd=cwd, environ=environ, timeout_s=timeout_s, is_together=True
    )


def _kill(group: int) -> bool:
    """Kill a group of ours; False if all of it belongs to another user, as after sudo."""
    try:
        os.killpg(group, signal.SIGKILL)
    except PermissionError:
        return False
    return True


def _wait(pid: int, timeout_s: float) -> bool:
    """Wait for a child without reaping it; whether it ended in time."""
    began = clock.now()
    waits = CpuWaits(lambda: (pid,))
    left_s = timeout_s
    while left_s > 0:
        if _has_ended(pid, left_s):
            return True
        limit_s = extended(timeout_s, waits.since({}))
        left_s = limit_s - (clock.now() - began)
    return False


def _has_ended(pid: int, limit_s: float) -> bool:
    """Whether a child that nobody has reaped ends in time."""
    pidfd = os.pidfd_open(pid)
    try:
        return has_ended(pidfd, limit_s)
    finally:
        os.close(pidfd)


def _text(file: IO[bytes]) -> str:
    """What was written; the end of it if that is more than a report could need."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_BYTES))
    return file.read().decode("utf-8", "replace")


# --- a function that may hang, called and awaited for a limited time ---
# In this thread, in another one, or in a copy of this process that goes on beside it. A thread would
# share the interpreter's lock with the work, and what it starts would look like a process of the job.
# The copy is there before the job's first process, and is killed as a whole.


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
            _kill_copy(pid)
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
            _kill_copy(self._pid)
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


def _kill_copy(pid: int) -> None:
    """Kill a copy, and the programs that it runs in sessions of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
        os.kill(pid, signal.SIGSTOP)  # it starts nothing more
        for child in ChildrenLook().of(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)

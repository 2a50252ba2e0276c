# SPDX-License-Identifier: Apache-2.0
"""A function in a forked child that is killed: at its n-th system call (ptrace(2)), or after some seconds."""

import ctypes
import os
import select
import signal
from collections.abc import Callable

_TRACEME, _CONT_SYSCALL, _SETOPTIONS = 0, 24, 0x4200
# TRACESYSGOOD, TRACECLONE (threads), EXITKILL: linux/ptrace.h
_OPTIONS = 0x1 | 0x8 | 0x100000
_WALL = 0x40000000
_SYSTEM_CALL = signal.SIGTRAP | 0x80
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_LIBC.ptrace.restype = ctypes.c_long


class PtraceForbiddenError(Exception):
    """A process may not trace its own child here."""


def killed_at_call(work: Callable[[], object], number: int) -> bool:
    """Kill a child that does `work` as it enters or leaves its `number`-th system call, threads included.

    False if it had finished before. The caller must have no other child and no thread.
    """
    child = os.fork()
    if child == 0:
        _traced(work)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        raise PtraceForbiddenError
    _ptrace(_SETOPTIONS, child, _OPTIONS)
    _ptrace(_CONT_SYSCALL, child, 0)
    calls = 0
    while True:
        thread, status = os.waitpid(-1, _WALL)
        if os.WIFSTOPPED(status):
            calls += os.WSTOPSIG(status) == _SYSTEM_CALL
            if calls == number:
                os.kill(child, signal.SIGKILL)
                _reap(child)
                return True
            _go_on(thread, os.WSTOPSIG(status))
        elif thread == child:
            if os.waitstatus_to_exitcode(status):
                raise RuntimeError(f"the child ended with {os.waitstatus_to_exitcode(status)}")
            return False


def killed_after(work: Callable[[], object], seconds: float) -> bool:
    """Kill a child that does `work` after `seconds`; False if it had finished before."""
    child = os.fork()
    if child == 0:
        _run(work)
    descriptor = os.pidfd_open(child)
    try:
        select.select([descriptor], [], [], seconds)
    finally:
        os.close(descriptor)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in {0, -signal.SIGKILL}:
        raise RuntimeError(f"the child ended with {code}")
    return code != 0


def _traced(work: Callable[[], object]) -> None:
    if _LIBC.ptrace(_TRACEME, 0, None, None):
        os._exit(77)
    os.kill(os.getpid(), signal.SIGSTOP)
    _run(work)


def _run(work: Callable[[], object]) -> None:
    try:
        work()
    except BaseException:  # noqa: BLE001  the status is all that a parent learns
        os._exit(1)
    os._exit(0)


def _go_on(thread: int, stopped_by: int) -> None:
    # A new thread begins with SIGSTOP, an event of ptrace is SIGTRAP: both are not for the program.
    passed_on = 0 if stopped_by in {_SYSTEM_CALL, signal.SIGTRAP, signal.SIGSTOP} else stopped_by
    _ptrace(_CONT_SYSCALL, thread, passed_on)


def _ptrace(request: int, thread: int, data: int) -> None:
    # ESRCH: the thread has just been killed or has ended.
    _LIBC.ptrace(request, thread, None, data)


def _reap(child: int) -> None:
    while True:
        thread, status = os.waitpid(-1, _WALL)
        if thread == child and not os.WIFSTOPPED(status):
            return

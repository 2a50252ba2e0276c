# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the guardian's own program. It starts what ci-doctor asks for, and ends it all when ci-doctor is gone.

Standard library only, and little of it: it is started in every launch, without site-packages. One loop, which sleeps
until a request comes, a child ends, or ci-doctor does.
"""

import contextlib
import ctypes
import errno
import os
import resource  # noqa: F401 - os.wait4 loads it, and that must not be when a death is to be told
import select
import signal
import socket
import sys

from ci_doctor.system.guardian.child import EXEC, IGNORED, Program, read_report, start
from ci_doctor.system.guardian.stop import end_all
from ci_doctor.system.guardian.wire import Wire

TYPE_CHECKING = False  # as in guardian_wire
if TYPE_CHECKING:
    from typing import Any

# linux/prctl.h
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36


class Spawned:
    """A child that ci-doctor knows as `token`; `report` is open until it is known whether its program runs."""

    __slots__ = ("pid", "pidfd", "report", "stop", "token")

    def __init__(self, token: int, pid: int, pidfd: int, report: int, stop: Program | None) -> None:
        self.token = token
        self.pid = pid
        self.pidfd = pidfd
        self.report = report
        self.stop = stop


class Loop:
    """Requests of ci-doctor, ends of children, the end of ci-doctor."""

    def __init__(self, wire: Wire, doctor: int, doctor_pid: int, deaf_to: frozenset[int]) -> None:
        self.wire = wire
        self.doctor = doctor
        self.doctor_pid = doctor_pid
        self.deaf_to = deaf_to
        self.spawned: dict[int, Spawned] = {}
        self.poll = select.poll()
        self.wakeup, writing = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for descriptor in (self.wakeup, self.doctor):
            self.poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Until ci-doctor is gone."""
        while True:
            self.send()
            ready = {descriptor for descriptor, _ in self.poll.poll()}
            if self.wakeup in ready:
                os.read(self.wakeup, 4096)
                self.reap()
            if self.doctor in ready or (self.wire.fileno() in ready and not self.serve()):
                return
            for child in [child for child in self.spawned.values() if child.report in ready]:
                self.settle(child)

    def stop_programs(self) -> list[Program]:
        """What was said to be run for those that live."""
        return [child.stop for child in self.spawned.values() if child.stop is not None]

    def send(self) -> None:
        """What has been said, as far as ci-doctor reads it."""
        with contextlib.suppress(OSError):  # its end is seen by the reading side
            self.wire.send()
        self.poll.register(
            self.wire.fileno(), select.POLLIN | (select.POLLOUT if self.wire.unsent else 0)
        )

    def serve(self) -> bool:
        """Take requests in; False once ci-doctor has closed its end."""
        messages = self.wire.receive()
        for (kind, token, *request), descriptors in messages or ():
            if kind == "kill":
                self.kill(token)
                continue
            try:
                self.spawn(token, descriptors, tuple(request))
            except (OSError, MemoryError) as error:
                number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
                self.wire.put(("failed", token, EXEC, number))
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        return messages is not None

    def spawn(self, token: int, descriptors: list[int], request: "tuple[Any, ...]") -> None:
        """Fork; whether the program runs is told by `settle`."""
        program, stop, given, foreground = request
        if len(descriptors) < sum(given):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        taken = iter(descriptors)
        streams = [next(taken) if here else None for here in given]
        # A group of another pid namespace reads as 0, and then the child leads one of its own (setpgid(2)).
        group = os.getpgid(self.doctor_pid) if foreground else None
        pid, report = start(Program(*program), streams, group=group, deaf_to=self.deaf_to)
        try:
            pidfd = os.pidfd_open(
                pid
            )  # nobody has waited for it yet, so that this is certainly the one
        except OSError:
            os.close(report)
            os.kill(pid, signal.SIGKILL)
            raise
        self.spawned[pid] = Spawned(token, pid, pidfd, report, Program(*stop) if stop else None)
        self.poll.register(report, select.POLLIN)

    def settle(self, child: Spawned) -> None:
        """Say whether the program runs."""
        self.poll.unregister(child.report)
        failed = read_report(child.report)
        child.report = -1
        if failed is None:
            self.wire.put(("started", child.token, child.pid), [child.pidfd], giving=True)
            return
        os.close(child.pidfd)
        del self.spawned[child.pid]
        self.wire.put(("failed", child.token, *failed))

    def kill(self, token: int) -> None:
        """A child that ci-doctor cannot take: it has no file descriptor left for it."""
        for child in self.spawned.values():
            if child.token == token:
                os.kill(child.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Wait for all that have ended, orphans too, and tell of those that ci-doctor knows."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                child = self.spawned.get(pid)
                if child is not None and child.report >= 0:
                    self.settle(child)
                if self.spawned.pop(pid, None) is not None and child is not None:
                    returncode = os.waitstatus_to_exitcode(status)
                    self.wire.put(("exited", child.token, returncode, used.ru_maxrss * 1024))


def main() -> None:
    """Serve until ci-doctor is gone, and then end all that is left. Arguments: the socket, ci-doctor's pidfd and pid."""
    channel, doctor, doctor_pid = (int(word) for word in sys.argv[-3:])
    deaf_to = frozenset(
        {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else ()
    )
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.set_inheritable(channel, False)
    os.set_inheritable(doctor, False)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_NAME, b"ci-doctor-guard", 0, 0, 0)
    refused = ctypes.get_errno() if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) else 0
    loop = Loop(Wire(socket.socket(fileno=channel)), doctor, doctor_pid, deaf_to)
    loop.wire.put(("ready", refused))
    loop.run()
    end_all(loop.stop_programs(), loop.wakeup)

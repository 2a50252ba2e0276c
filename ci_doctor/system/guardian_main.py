# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the guardian's own program. It starts what ci-doctor asks for.

It ends all that once ci-doctor is gone. Standard library only, and little of it: it is started in
every launch, without site-packages. One loop, which sleeps until a request comes, a child ends, or
ci-doctor does.
"""

import contextlib
import ctypes
import errno
import marshal
import os
import resource  # noqa: F401 - os.wait4 imports it, and a death must not wait for that
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Collection, Iterable

from ci_doctor.system.processes.process_table import descendants, read_table
from ci_doctor.system.processes.program import EXEC, Program, read_report, start
from ci_doctor.system.processes.tree_stop import TreeStop

# --- whole messages with file descriptors, between ci-doctor and its guardian ---
# Standard library only, and little of it: the guardian starts in every launch, without
# site-packages. Both ends run the same Python, which is what marshal asks for.

_HEADER_BYTES = 5  # four: how long the message is; one: how many file descriptors come with it
_DESCRIPTOR_BYTES = 4  # of a C int
_ROOM = socket.CMSG_SPACE(8 * _DESCRIPTOR_BYTES)  # for eight of them
_CHUNK = 1 << 13  # what recvmsg sets aside each time; most messages are shorter by far


class Wire:
    """One end of a stream socketpair. Nothing here waits: the caller polls `fileno()`.

    Of the messages that carry file descriptors only one may be under way in each direction, so
    that all that have arrived belong to it. If they exceed the receiver's limit of open
    files (RLIMIT_NOFILE), fewer arrive, or none.
    """

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._arrived = bytearray()
        self._descriptors: list[int] = []
        self._queue: deque[tuple[memoryview, tuple[int, ...], bool]] = deque()

    def fileno(self) -> int:
        """For poll(2)."""
        return self._channel.fileno()

    @property
    def unsent(self) -> bool:
        """Whether something waits until the other end reads."""
        return bool(self._queue)

    def put(
        self, message: "tuple[Any, ...]", descriptors: Iterable[int] = (), *, giving: bool = False
    ) -> None:
        """Queue a message for `send`; `giving`: close its descriptors here once they are sent."""
        data = marshal.dumps(message)
        attached = tuple(descriptors)
        header = len(data).to_bytes(4, "big") + bytes([len(attached)])
        self._queue.append((memoryview(header + data), attached, giving))

    def send(self) -> None:
        """Send as much as the socket takes now. Raises OSError if the other end is gone."""
        while self._queue:
            data, descriptors, giving = self._queue[0]
            try:
                if descriptors:
                    sent = socket.send_fds(self._channel, [data], descriptors)
                else:
                    sent = self._channel.send(data)
            except BlockingIOError:
                return
            self._queue.popleft()
            if giving:
                _close(descriptors)
            # The descriptors went with the first byte; what remains is bytes alone.
            if sent < len(data):
                self._queue.appendleft((data[sent:], (), False))

    def receive(self) -> "list[tuple[tuple[Any, ...], list[int]]] | None":
        """The messages that are complete by now, each with its file descriptors.

        None once the other end is gone.
        """
        try:
            # Not socket.recv_fds, which does not pass the flag on (Python 3.11): without it every
            # program started later would inherit the descriptors.
            data, ancillary, _, _ = self._channel.recvmsg(_CHUNK, _ROOM, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return []
        except OSError:
            return None
        for level, kind, raw in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(raw) // _DESCRIPTOR_BYTES * _DESCRIPTOR_BYTES
                self._descriptors += memoryview(raw)[:whole].cast("i")
        if not data:
            return None
        self._arrived += data
        return list(iter(self._next, None))

    def close(self) -> None:
        """Close the socket, and the descriptors that were not fetched or not sent."""
        self._channel.close()
        _close(self._descriptors)
        self._descriptors = []
        for _, descriptors, giving in self._queue:
            if giving:
                _close(descriptors)
        self._queue.clear()

    def _next(self) -> "tuple[tuple[Any, ...], list[int]] | None":
        """Take the first complete message of what has arrived; None if there is none."""
        size = int.from_bytes(self._arrived[:4], "big") + _HEADER_BYTES
        if len(self._arrived) < size:
            return None
        content = bytes(self._arrived[_HEADER_BYTES:size])
        message = marshal.loads(content)  # noqa: S302 - from a socketpair of our own
        descriptors: list[int] = []
        if self._arrived[4]:
            descriptors, self._descriptors = self._descriptors, []
        del self._arrived[:size]
        return message, descriptors


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


# typing itself would take the guardian as long as all the rest of its imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What the guardian ignores: it ends with ci-doctor, and not before.
_IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
_RESTORED = frozenset({*_IGNORED, signal.SIGXFSZ, signal.SIGCHLD})  # Python itself ignores SIGXFSZ


_GRACE_S = 1.0
_STOP_COMMANDS_S = 3.0
_LIMIT_S = 10.0  # only the kernel holds a process back that long after SIGKILL
# linux/prctl.h
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36


class Spawned:
    """A child that ci-doctor knows as `token`.

    `report` is open until it is known whether the program runs, and -1 then.
    """

    __slots__ = ("pid", "pidfd", "report", "stop", "token")

    def __init__(self, token: int, pid: int, pidfd: int, report: int, stop: Program | None) -> None:
        self.token = token
        self.pid = pid
        self.pidfd = pidfd
        self.report = report
        self.stop = stop


class Loop:
    """Waits for requests of ci-doctor, ends of children, and the end of ci-doctor."""

    def __init__(
        self, wire: Wire, doctor: int, doctor_pid: int, stay_ignored: frozenset[int]
    ) -> None:
        self.wire = wire
        self.doctor = doctor
        self.doctor_pid = doctor_pid
        self.stay_ignored = stay_ignored
        self.spawned: dict[int, Spawned] = {}
        self.poll = select.poll()
        self.wakeup, writing = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(writing, False)
        # Full means that a wake-up is waiting already.
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.poll.register(self.wakeup, select.POLLIN)
        self.poll.register(self.doctor, select.POLLIN)

    def run(self) -> None:
        """Serve until ci-doctor is gone."""
        while True:
            self.send()
            ready = {descriptor for descriptor, _ in self.poll.poll()}
            if self.wakeup in ready:
                os.read(self.wakeup, 4096)
                self.reap()
            if self.doctor in ready:
                return
            if self.wire.fileno() in ready and not self.serve():
                return
            self.settle_all(ready)

    def send(self) -> None:
        """Send what is queued, as far as ci-doctor reads it."""
        with contextlib.suppress(OSError):  # the end of ci-doctor shows on the reading side
            self.wire.send()
        events = select.POLLIN
        if self.wire.unsent:
            events |= select.POLLOUT
        self.poll.register(self.wire.fileno(), events)

    def serve(self) -> bool:
        """Act on the requests that have come; False once ci-doctor has closed its end."""
        messages = self.wire.receive()
        if messages is None:
            return False
        for (kind, token, *request), descriptors in messages:
            if kind == "kill":
                self.kill(token)
                continue
            try:
                self.spawn(token, descriptors, tuple(request))
            except MemoryError:
                self.wire.put(("failed", token, EXEC, errno.ENOMEM))
            except OSError as error:
                self.wire.put(("failed", token, EXEC, error.errno))
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        return True

    def spawn(self, token: int, descriptors: list[int], request: "tuple[Any, ...]") -> None:
        """Fork. `settle` reports later whether the program runs."""
        program, stop, given, foreground = request
        if len(descriptors) < sum(given):  # our limit of open files was reached
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        remaining = iter(descriptors)
        streams = [next(remaining) if is_given else None for is_given in given]
        # A group of another pid namespace reads as 0, and then the child leads one of its own
        # (setpgid(2)).
        group = os.getpgid(self.doctor_pid) if foreground else None
        pid, report = start(Program(*program), streams, lambda: _prepare(group, self.stay_ignored))
        try:
            # Nobody has waited for the child yet, so that its pid is certainly its own.
            pidfd = os.pidfd_open(pid)
        except OSError:
            os.close(report)
            os.kill(pid, signal.SIGKILL)
            raise
        stop_program = Program(*stop) if stop else None
        self.spawned[pid] = Spawned(token, pid, pidfd, report, stop_program)
        self.poll.register(report, select.POLLIN)

    def settle_all(self, ready: set[int]) -> None:
        """Settle the children whose reports are in `ready`."""
        for child in list(self.spawned.values()):
            if child.report in ready:
                self.settle(child)

    def settle(self, child: Spawned) -> None:
        """Report whether the program of `child` runs."""
        self.poll.unregister(child.report)
        failure = read_report(child.report)
        child.report = -1
        if failure is None:
            self.wire.put(("started", child.token, child.pid), [child.pidfd], giving=True)
            return
        os.close(child.pidfd)
        del self.spawned[child.pid]
        self.wire.put(("failed", child.token, *failure))

    def kill(self, token: int) -> None:
        """Kill a child that ci-doctor cannot take: it has no free descriptor for the pidfd."""
        for child in self.spawned.values():
            if child.token == token:
                os.kill(child.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Wait for all that have ended, orphans too, and report those that ci-doctor started."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.report_end(pid, os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)

    def report_end(self, pid: int, returncode: int, peak_rss: int) -> None:
        """Report how a child ended, after whether it ran at all: ci-doctor waits for that first."""
        child = self.spawned.get(pid)
        if child is None:
            return
        if child.report >= 0:
            self.settle(child)
        if self.spawned.pop(pid, None) is not None:
            self.wire.put(("exited", child.token, returncode, peak_rss))


def _prepare(group: int | None, stay_ignored: frozenset[int]) -> None:
    """In the child: lead a session, or join the process `group`; signals of `stay_ignored` stay so."""
    if group is None:
        os.setsid()
    else:
        os.setpgid(0, group)
    # An ignored signal stays ignored across exec, a handler does not (execve(2)).
    for signal_number in _RESTORED - stay_ignored:
        signal.signal(signal_number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def end_all(roots: Collection[int], stop_programs: Iterable[Program], wakeup: int) -> None:
    """Ask everything below us to end, run `stop_programs` meanwhile, and then kill what is left.

    `roots` are the pids that were started as themselves, and not by others. `wakeup` becomes
    readable with each SIGCHLD. Those asked have 1 second, helpers of others 2 after all others have
    ended (tree_stop.py), `stop_programs` 3, and the whole 10.
    """
    began = time.monotonic()
    stopping = set(_started(stop_programs))
    stop = TreeStop(lambda kin: kin.pid in roots, signal.SIGTERM)
    is_asking = True
    quiet = 0
    # One empty look is not enough: a fork under way during it is seen by the next.
    while quiet < 2 and (age_s := time.monotonic() - began) < _LIMIT_S:
        _reap(stopping)
        spared = stopping if age_s < _STOP_COMMANDS_S else frozenset[int]()
        pause_s = 0.02
        try:
            table = list(read_table())
            bystanders = frozenset(kin.identity for kin in table if kin.pid in spared)
            below = descendants(table, os.getpid(), bystanders)
            living = [kin for kin in below if not kin.ended]
            quiet = 0 if living or spared else quiet + 1
            if living and is_asking and age_s < _GRACE_S:
                _, pause_s = stop.ask(living, age_s, _GRACE_S)
                is_asking = pause_s > 0
                pause_s = min(pause_s, _GRACE_S - age_s)
            else:
                stop.kill(living, _LIMIT_S)
        except (OSError, MemoryError):
            # No file descriptor or memory left just now: what we end gives some back.
            quiet = 0
        _wait(wakeup, 0.002 if quiet else min(0.1, max(0.0, pause_s)))


def _started(programs: Iterable[Program]) -> Iterable[int]:
    for program in programs:
        with contextlib.suppress(OSError):
            pid, report = start(program, (None, None, None), lambda: _prepare(None, frozenset()))
            os.close(report)
            yield pid


def _reap(stopping: set[int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            stopping.discard(pid)


def _wait(wakeup: int, limit_s: float) -> None:
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    if poll.poll(limit_s * 1000):
        os.read(wakeup, 4096)


def main() -> None:
    """Serve until ci-doctor is gone, and then end all that is left.

    Arguments: the socket, ci-doctor's pidfd and its pid.
    """
    channel, doctor, doctor_pid = (int(word) for word in sys.argv[-3:])
    # nohup(1) has SIGHUP ignored for the whole job.
    is_hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    stay_ignored = frozenset({signal.SIGHUP}) if is_hangup_ignored else frozenset[int]()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.set_inheritable(channel, False)
    os.set_inheritable(doctor, False)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_NAME, b"ci-doctor-guard", 0, 0, 0)
    refused = 0
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        refused = ctypes.get_errno()
    loop = Loop(Wire(socket.socket(fileno=channel)), doctor, doctor_pid, stay_ignored)
    loop.wire.put(("ready", refused))
    loop.run()
    stop_programs = [child.stop for child in loop.spawned.values() if child.stop is not None]
    end_all(frozenset(loop.spawned), stop_programs, loop.wakeup)

# SPDX-License-Identifier: Apache-2.0
"""Reads /proc and the kernel: every process below a script, and who listens where, by what has changed since the last look."""

import contextlib
import os
import resource
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ci_doctor.system import clock
from ci_doctor.system.processes.listeners import holders, listening_ports
from ci_doctor.system.processes.process import exit_status
from ci_doctor.system.processes.process_table import (
    Kin,
    NewestPid,
    children_of,
    look_up,
    read_table,
)
from ci_doctor.watch.judging import SETTLED_S, Listener, Process, may_have_served, named_ports

_MOST_AT_ONCE = 8192  # pids; a look at all processes costs less than more of them
_SHELLS_AT_ONCE = 8
_ALL_S = 10.0
_BLIND_S = 1.0
_DETAIL_BYTES = 16384
_LOWEST = 300  # after the highest pid (RESERVED_PIDS, kernel/pid.c)
_TRIES = 3
_STACKS_PROGRAM = "py-spy"  # which we start ourselves


class ScriptTree:
    """The processes below `command`, a child of this process, which is the subreaper of all.

    `spared` are other children of ours. `log` keeps what the command writes. `on_watch` and `on_unwatch` get the pidfd of each process
    that comes and goes. `root` is the command itself; raises KeyError if there is none. short: how many pids were given out and gone before a look, of this
    pid namespace: processes and threads, also of others.
    """

    def __init__(
        self,
        command: int,
        spared: frozenset[int],
        on_watch: Callable[[int], None],
        on_unwatch: Callable[[int], None],
        log: str | None = None,
    ) -> None:
        self.command = command
        self.living: dict[int, Process] = {}
        self.by_pidfd: dict[int, Process] = {}
        self._recent: list[Process] = []
        self._ended: list[Process] = []
        self._settled: list[Process] = []
        self.short = 0
        self._own = os.getpid()
        self._spared = spared
        self._on_watch = on_watch
        self._on_unwatch = on_unwatch
        self._young: list[Process] = []
        self._shells: deque[Process] = deque()
        self._files_of_pipes: dict[str, str] = {}
        # Others need descriptors of the same limit.
        self._free = min(2000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3)
        self._boot_s = time.clock_gettime(time.CLOCK_BOOTTIME) - clock.now()
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._newest = NewestPid()
        self._last = command - 1
        newest = self._newest.read()
        # A container may show a /proc/loadavg of its own making.
        self._is_told = newest is not None and newest >= command
        self._all_due = 0.0
        self.look()
        self.root = self.living[command]
        if log is not None:
            self._files_of_pipes |= dict.fromkeys(self.root.outputs, log)
            self.root.log = log

    def look(self, *, at_all: bool = False) -> list[Process]:
        """The processes that have come since the last look, parents first; `at_all`: not at what has changed alone."""
        now = clock.now()
        if at_all:
            self._all_due = now
        self._look_at_young(now)
        self._look_at_shells()
        born: list[Process] = []
        newest = self._newest.read() if self._is_told else None
        pids = range(0)
        if newest is not None and newest != self._last:
            pids = range(self._last + 1, newest + 1)
            if newest < self._last:  # the kernel has begun anew
                pids = range(_LOWEST, newest + 1)
                self._all_due = 0.0
            self._last = newest
        if len(pids) > _MOST_AT_ONCE or now >= self._all_due:
            self._all_due = now + (_ALL_S if self._is_told else _BLIND_S)
            self._look_at_all(born)
        else:
            for pid in pids:
                if pid not in self.living:
                    self._look_at(pid, born)
        return born

    def _look_at_young(self, now: float) -> None:
        for process in tuple(self._young):
            self._read(process)
            if now - process.born >= SETTLED_S:
                self._young.remove(process)
                self._settle(process)
                self._settled.append(process)
                if process.is_shell and process.is_copy:
                    self._shells.append(process)

    def _look_at_shells(self) -> None:
        """A few of the subshells each time: `( sleep 2; exec server ) &` becomes another program."""
        for _ in range(min(_SHELLS_AT_ONCE, len(self._shells))):
            process = self._shells.popleft()
            self.renew([process])
            if process.ended is None and process.is_copy:
                self._shells.append(process)

    def end(self, process: Process) -> None:
        """It has ended: note how, and give its pidfd back."""
        if process.ended is not None:
            return
        process.ended = clock.now()
        process.returncode = self._status(process)
        process.log = process.log or self._log(process)
        self.living.pop(process.pid, None)
        if process.pidfd >= 0:
            self._on_unwatch(process.pidfd)
            self.by_pidfd.pop(process.pidfd, None)
            os.close(process.pidfd)
            process.pidfd = -1
            self._free += 1
        if process in self._young:
            self._young.remove(process)
        self._ended.append(process)

    def take_ended(self) -> list[Process]:
        """Those that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def take_settled(self) -> list[Process]:
        """Those that have lived for a second since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def recent(self, since: float) -> list[Process]:
        """Those that live, or ended after that time."""
        self._recent = [each for each in self._recent if each.ended is None or each.ended > since]
        return self._recent

    def reap(self) -> None:
        """Wait for orphans that have ended, known or not: they are our children now."""
        for pid in children_of(self._own):
            if pid == self.command or pid in self._spared:
                continue
            known = self.living.get(pid)
            if known is not None:
                known.is_orphan = True
                now = look_up(pid)
                if now is not None and now.ended:
                    self.end(known)
                continue
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)

    def close(self) -> None:
        """Give all file descriptors back."""
        self._newest.close()
        for process in tuple(self.living.values()):
            if process.pidfd >= 0:
                os.close(process.pidfd)
                process.pidfd = -1

    def _look_at_all(self, born: list[Process]) -> None:
        table = {kin.pid: kin for kin in read_table()}
        for process in tuple(self.living.values()):
            kin = table.get(process.pid)
            if kin is None or kin.identity != process.kin.identity or kin.ended:
                self.end(process)
            else:
                self._renew(process, kin)
        for kin in table.values():
            # One that has ended was there before, or nobody can tell what it was.
            if kin.pid not in self.living and not kin.ended and self._is_ours(kin, table):
                self._take_in(kin, born)

    def renew(self, processes: Iterable[Process]) -> None:
        """Read again what these are: they may have become other programs."""
        for process in processes:
            kin = look_up(process.pid)
            if kin is not None and kin.identity == process.kin.identity:
                self._renew(process, kin)

    def _renew(self, process: Process, kin: Kin) -> None:
        # In the midst of execve(2) it has its new name, and no command line yet.
        if kin.name != process.kin.name and self._read(process):
            process.kin = kin
            self._settle(process)

    def _is_ours(self, kin: Kin, table: Mapping[int, Kin]) -> bool:
        pid = kin.pid
        seen = set()
        while pid not in seen:
            seen.add(pid)
            if pid == self.command or pid in self.living:
                return True
            row = table.get(pid)
            if row is None or pid in self._spared or pid == self._own:
                return False
            if row.parent == self._own:
                return row.name != _STACKS_PROGRAM
            pid = row.parent
        return False

    def _look_at(self, pid: int, born: list[Process]) -> None:
        """Take in the process with this pid, and those above it, if it is one of the script."""
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self.short += 1
            return
        except OSError:  # a thread's id, or no descriptor is left
            return
        chain = self._chain_of_ours(pid)
        for kin in reversed(chain.values()):
            if kin.pid not in self.living:
                self._take_in(kin, born, pidfd if kin.pid == pid else -1)
        if pid not in self.living or self.living[pid].pidfd != pidfd:
            os.close(pidfd)

    def _chain_of_ours(self, pid: int) -> dict[int, Kin]:
        """`_chain` of a process of the script; empty for another one."""
        for _ in range(_TRIES):
            chain = self._chain(pid)
            if not chain:
                self.short += 1
                return chain
            if self._is_ours(chain[pid], chain):
                return chain
            if next(reversed(chain.values())).parent in {self._own, 0, 1}:
                break  # another's
            # Its parent ended meanwhile: it has another one now.
        return {}

    def _chain(self, pid: int) -> dict[int, Kin]:
        """That process and those above it by pid, up to one that is known; empty if it is gone."""
        chain: dict[int, Kin] = {}
        kin = look_up(pid)
        while kin is not None:
            chain[kin.pid] = kin
            if kin.pid in self.living or kin.parent in {self._own, 0, 1}:
                break
            kin = look_up(kin.parent)
        return chain

    def _take_in(self, kin: Kin, born: list[Process], pidfd: int = -1) -> None:
        process = Process(
            kin=kin,
            born=kin.started / self._ticks - self._boot_s,
            parent=self.living.get(kin.parent),
            is_orphan=kin.parent == self._own and kin.pid != self.command,
            ports=set(),
        )
        self._read(process)
        for other in self.living.values():
            if process.parent is not None and other.parent is process.parent:
                other.is_beside = True
        self.living[kin.pid] = process
        self._recent.append(process)
        self._young.append(process)
        born.append(process)
        if pidfd < 0:
            with contextlib.suppress(OSError):
                pidfd = os.pidfd_open(kin.pid) if self._free > 0 else -1
            now = look_up(kin.pid)
            if now is None or now.identity != kin.identity:
                # It has ended since its table was read, and nobody would tell of that.
                if pidfd >= 0:
                    os.close(pidfd)
                self.end(process)
                return
        if pidfd >= 0 and self._free > 0:
            process.pidfd = pidfd
            self.by_pidfd[pidfd] = process
            self._free -= 1
            self._on_watch(pidfd)

    def _read(self, process: Process) -> bool:
        """Its command line, its directory and its outputs; what cannot be read stays as it was.

        Whether there was a command line.
        """
        words = [b""]
        folder = f"/proc/{process.pid}"
        with contextlib.suppress(OSError):
            words = _content(f"{folder}/cmdline").rstrip(b"\0").split(b"\0")
            if words != [b""]:
                process.words = tuple(word.decode(errors="replace") for word in words)
            process.directory = os.readlink(f"{folder}/cwd")  # noqa: PTH115
            process.outputs = tuple(filter(None, map(partial(_opened, process.pid), (1, 2))))
            source = _opened(process.pid, 0)
            if source.startswith("pipe:"):
                path = _written_by(process.pid)
                if path:
                    self._files_of_pipes[source] = path
            process.log = self._log(process) or process.log
        return words != [b""]

    def _log(self, process: Process) -> str | None:
        """The regular file that its output goes to, also through a reader of its pipe (`| tee log`)."""
        for output in reversed(process.outputs):
            if output.startswith("/") and os.path.isfile(output):  # noqa: PTH113
                return output
        known = map(self._files_of_pipes.get, reversed(process.outputs))
        return next(filter(None, known), None)

    def _settle(self, process: Process) -> None:
        """Read what stays the same."""
        with contextlib.suppress(OSError):
            entries = _content(f"/proc/{process.pid}/environ").split(b"\0")
            pairs = (entry.partition(b"=") for entry in entries)
            process.environ_ports = frozenset(
                int(value)
                for name, _, value in pairs
                if b"PORT" in name and value.isdigit() and len(value) < 6
            )

    def _status(self, process: Process) -> int | None:
        if process.pid != self.command:
            with contextlib.suppress(OSError):
                which = (
                    (os.P_PID, process.pid) if process.pidfd < 0 else (os.P_PIDFD, process.pidfd)
                )
                ended = os.waitid(*which, os.WEXITED | os.WNOHANG)
                if ended is not None:
                    code = ended.si_status
                    return code if ended.si_code == os.CLD_EXITED else -code
        pidfd = process.pidfd if process.pidfd >= 0 else None
        return exit_status(pidfd, process.pid, process.kin.started)


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _DETAIL_BYTES)
    finally:
        os.close(descriptor)


def _opened(pid: int, number: int) -> str:
    """What a descriptor of a process leads to; empty if nobody can tell."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115
    except OSError:
        return ""


def _written_by(pid: int) -> str:
    """The first regular file that a process writes, as tee(1) does; empty if there is none."""
    with contextlib.suppress(OSError, ValueError):
        for number in sorted(map(int, os.listdir(f"/proc/{pid}/fd"))):  # noqa: PTH208
            target = _opened(pid, number)
            if target.startswith("/") and os.path.isfile(target):  # noqa: PTH113
                flags = _content(f"/proc/{pid}/fdinfo/{number}").partition(b"flags:")[2]
                if int(flags.split(b"\n")[0], 8) & os.O_ACCMODE != os.O_RDONLY:
                    return target
    return ""


# --- who listens on which ports, by what has changed ---


# A socket may come before its process was seen.
_LOOKS = 3
# A listener of another job is looked for in all processes: that may take this share of a core.
_SHARE = 0.005


class Listening:
    """Who listens now. What listened when this was made is nobody's of the script."""

    def __init__(self) -> None:
        self.by_inode: dict[int, Listener] = {}
        self.is_known = True
        self._unowned: dict[int, int] = {}
        self._search_due = 0.0
        for inode, port in self._ports().items():
            self.by_inode[inode] = Listener(port=port, since=float("-inf"))

    def look(self, tree: ScriptTree, now: float) -> tuple[list[Listener], list[Listener]]:
        """The listeners that have come, once it is known whose they are, and those that have gone."""
        ports = self._ports()
        gone = [self.by_inode.pop(inode) for inode in self.by_inode.keys() - ports.keys()]
        come = []
        for inode in ports.keys() - self.by_inode.keys():
            self.by_inode[inode] = Listener(port=ports[inode], since=now)
            self._unowned[inode] = _LOOKS
        for inode in tuple(self._unowned):
            listener = self.by_inode.get(inode)
            if listener is None:
                del self._unowned[inode]
            elif self._search(tree, inode, listener, now):
                del self._unowned[inode]
                come.append(listener)
        return come, gone

    def _search(self, tree: ScriptTree, inode: int, listener: Listener, now: float) -> bool:
        """Whether it is known now whose the socket is: a process of the script, or none of them."""
        # Most processes are no servers: first those that name the port, then the youngest.
        able = [each for each in tree.living.values() if may_have_served(each)]
        naming = [each for each in able if listener.port in named_ports(each.words)]
        owner = _owner(tree, inode, naming)
        if owner is None:
            if now < self._search_due:
                return False
            began = time.thread_time()
            # `( sleep 2; exec server ) &` was a shell.
            tree.renew(each for each in tree.living.values() if not may_have_served(each))
            able = [each for each in tree.living.values() if may_have_served(each)]
            owner = _owner(tree, inode, sorted(able, key=lambda each: -each.born))
            self._search_due = now + (time.thread_time() - began) / _SHARE
            self._unowned[inode] -= 1
        if owner is not None:
            listener.owner = owner
            owner.ports.add(listener.port)
        return owner is not None or self._unowned[inode] <= 0

    def _ports(self) -> dict[int, int]:
        try:
            return listening_ports()
        except OSError:
            self.is_known = False
            return {}


def _owner(tree: ScriptTree, inode: int, processes: Iterable[Process]) -> Process | None:
    """The one that holds the socket: the topmost of a family, which has handed it down."""
    inodes = frozenset({inode})
    pid = next(holders((each.pid for each in processes), inodes), None)
    owner = None if pid is None else tree.living.get(pid)
    while owner is not None and owner.parent is not None and owner.parent.ended is None:
        if next(holders([owner.parent.pid], inodes), None) is None:
            break
        owner = owner.parent
    return owner

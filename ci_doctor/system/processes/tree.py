# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: finds, signals and reaps everything that descends from this one; holds one that is not our child."""

import contextlib
import os
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.processes.process import exit_status, has_ended
from ci_doctor.system.processes.process_table import (
    Kin,
    children_of,
    descendants,
    kernel_lists_children,
    look_up,
    read_table,
)
from ci_doctor.system.processes.tree_stop import TreeStop, wait_for_all, wait_for_one

_WATCHED_AT_ONCE = 16  # file descriptors; the rest is watched in the next round
_LOOK_AGAIN_S = 0.02
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def become_subreaper() -> None:
    """From now on orphans below us become our children. Raises InfraError if the system refuses."""
    import ctypes

    # A parent may have left SIGCHLD ignored; then the kernel discards exit codes (waitpid(2)).
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise InfraError(
            f"this system does not let ci-doctor adopt orphaned processes: {reason}",
            hint="allow prctl(PR_SET_CHILD_SUBREAPER) in the container's seccomp profile",
        )


class KillOutcome(Struct, frozen=True, kw_only=True):
    """`killed` were sent SIGKILL; `survivors` were still there at the deadline."""

    killed: tuple[Kin, ...] = ()
    survivors: tuple[Kin, ...] = ()


class Spawner(Protocol):
    """A process below us that starts others for us, as the guardian does."""

    identity: tuple[int, int]

    def started(self, pid: int) -> bool:
        """Whether the living child `pid` was spawned there, and not adopted."""

    def claims(self, pid: int) -> bool:
        """Whether the ended child `pid` was spawned there; its exit status is then kept for it."""


# Trees that are in use at once: none may touch what another one's guardian has started.
_IN_USE: "weakref.WeakSet[OwnTree]" = weakref.WeakSet()


def living_in_use() -> tuple[Kin, ...]:
    """What lives of all trees between their `begin` and their `end`."""
    return tuple(kin for each in tuple(_IN_USE) for kin in each.living())


class OwnTree:
    """Everything that descends from this process and was not there when the object was made.

    Never the `guardian` itself, which reaps its own children, nor what another tree's guardian has
    started. A process that a bystander starts later *and* orphans counts as ours: nothing
    distinguishes the two.
    """

    def __init__(self, guardian: Spawner | None = None) -> None:
        self._root = os.getpid()
        self._guardian = guardian
        self._stop = TreeStop(self._is_root)
        self._bystanders: frozenset[tuple[int, int]] = frozenset()
        self._bystanders = frozenset(kin.identity for kin in self._descendants())

    def begin(self) -> None:
        """From now on no other tree takes what the guardian starts for its own."""
        _IN_USE.add(self)

    def end(self) -> None:
        """All of it has ended; may be called again."""
        _IN_USE.discard(self)

    def living(self, *, thorough: bool = True) -> tuple[Kin, ...]:
        """Reap what has ended, and return what lives.

        Not `thorough`: cheaper on a machine with many processes, but may miss one that comes or
        goes meanwhile.
        """
        living = []
        for kin in self._descendants(thorough=thorough):
            if not kin.ended:
                living.append(kin)
            elif kin.parent == self._root:
                self._reap(kin.pid)
        return tuple(living)

    def below(self, pid: int) -> tuple[Kin, ...]:
        """What lives of `pid` and its descendants, without those that its death has orphaned."""
        table = tuple(read_table())
        own = [kin for kin in table if kin.pid == pid]
        family = (*own, *descendants(table, pid, self._bystanders))
        return tuple(kin for kin in family if not kin.ended)

    async def terminate(self, limit_s: float) -> None:
        """Send SIGINT to all, later ones too, and SIGTERM after a third of `limit_s` seconds.

        Helpers come after all others (TreeStop). Returns as soon as none is left, or when only
        SIGKILL would help.
        """
        began = clock.now()
        while (age_s := clock.now() - began) < limit_s:
            living = self.living(thorough=False)
            if not living:
                return
            awaited, pause_s = self._stop.ask(living, age_s, limit_s)
            if pause_s <= 0:
                return
            await wait_for_all(awaited[:_WATCHED_AT_ONCE], min(pause_s, limit_s - age_s))

    def kill(self, limit_s: float, *, at_once: bool = False) -> KillOutcome:
        """Send SIGKILL until none is left or time is up.

        Blocks for a few milliseconds, unless helpers tidy up (they may not, `at_once`) or the
        kernel holds a process back.
        """
        deadline = clock.now() + limit_s
        survivors: tuple[Kin, ...] = ()
        quiet = 0
        # One empty look is not enough: a fork under way during it is seen by the next.
        while quiet < 2:
            living = self.living(thorough=quiet > 0)
            quiet = 0 if living else quiet + 1
            if living and clock.now() > deadline:
                survivors = living
                break
            if at_once:
                self._stop.kill_all(living)
            else:
                self._stop.kill(living, limit_s)
            wait_for_one(living[:_WATCHED_AT_ONCE], _LOOK_AGAIN_S)
        return KillOutcome(killed=tuple(self._stop.killed.values()), survivors=survivors)

    def _is_root(self, kin: Kin) -> bool:
        """Whether it was started as itself, and is no helper of another process."""
        if self._guardian is None:
            return kin.parent == self._root
        return self._guardian.started(kin.pid)

    def _descendants(self, *, thorough: bool = True) -> tuple[Kin, ...]:
        if thorough or not kernel_lists_children():
            table = read_table()
        else:
            table = _listed_below(self._root)
        others = [each for each in _IN_USE if each is not self]
        if others:
            table = (kin for kin in table if not any(each.owns(kin) for each in others))
        processes = descendants(table, self._root, self._bystanders)
        if self._guardian is None:
            return processes
        spared = self._guardian.identity
        return tuple(kin for kin in processes if kin.identity != spared)

    def owns(self, kin: Kin) -> bool:
        """Whether `kin` is the guardian, or was started there; both are at the head of a family."""
        guardian = self._guardian
        return guardian is not None and (
            kin.identity == guardian.identity or guardian.started(kin.pid)
        )

    def _reap(self, pid: int) -> None:
        if self._guardian is not None and self._guardian.claims(pid):
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _listed_below(root: int) -> Iterator[Kin]:
    """The descendants by the kernel's own lists of children: no look at all of /proc."""
    parents = [root]
    while parents:
        pids = children_of(parents.pop())
        parents += pids
        for pid in pids:
            kin = look_up(pid)
            if kin is not None:
                yield kin


# --- a process that is not our child: held, and when and how it ends ---


class ExternalProcess:
    """A process that ci-doctor did not start.

    `pidfd` becomes readable when it has ended, reaped or not. `kin` is None if /proc hides it.
    `started_at` is monotonic seconds, to a hundredth or so. Nobody tells how much memory it used.
    """

    peak_rss: int | None = None

    def __init__(self, pid: int, pidfd: int) -> None:
        self._returncode: int | None = None
        self.pid = pid
        self.pidfd = pidfd
        self.kin: Kin | None = look_up(pid)
        self.started_at = clock.now()
        if self.kin is not None:
            self.started_at -= _age_s(self.kin)

    @classmethod
    def open(cls, pid: int) -> Self | None:
        """The process that has `pid` now, a zombie too; None if there is none.

        Raises OSError if the system does not let us hold it: EINVAL for the id of a thread,
        EMFILE if no file descriptor is left.
        """
        try:
            return cls(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            return None

    @property
    def name(self) -> str:
        """`python3 (pid 42)`."""
        if self.kin is None:
            return f"pid {self.pid}"
        return f"{self.kin.name} (pid {self.pid})"

    def has_ended(self) -> bool:
        """Whether it and all of its threads have ended."""
        return has_ended(self.pidfd)

    def wait(self) -> int | None:
        """Once it has ended: the exit code, or the negative signal number; None if unknown."""
        # Kept, because a pidfd that is closed tells nothing.
        if self._returncode is None and self.kin is not None and self.pidfd >= 0:
            self._returncode = exit_status(self.pidfd, self.pid, self.kin.started)
        return self._returncode

    def close(self) -> None:
        """Give the pidfd back; may be called again."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def _age_s(kin: Kin) -> float:
    """Seconds since its start; 0 if /proc/uptime cannot be read.

    Uptime and start are both on the clock that counts the time asleep too (proc_uptime(5)).
    """
    try:
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    started_s = kin.started / os.sysconf("SC_CLK_TCK")
    return max(0.0, uptime_s - started_s)

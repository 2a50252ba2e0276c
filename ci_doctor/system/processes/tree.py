# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: finds, signals and reaps everything that descends from this one.

A process that calls setsid, forks twice or clears its environment leaves its group, its parent
and every marker. As child subreaper (prctl(2)) we become the parent of such orphans, so that a
walk from ourselves finds them all.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from ci_doctor.system import clock
from ci_doctor.system.processes.children import children_of, kernel_lists_children
from ci_doctor.system.processes.process_table import Kin, descendants, look_up, read_table
from ci_doctor.system.processes.signalling import (
    PoliteEnding,
    send_signal,
    wait_for_all,
    wait_for_one,
)

_WATCHED_AT_ONCE = 16  # file descriptors; the rest is watched in the next round
_LOOK_AGAIN_S = 0.02


class KillOutcome(Struct, frozen=True, kw_only=True):
    """`killed` were sent SIGKILL; `survivors` were still there at the deadline."""

    killed: tuple[Kin, ...] = ()
    survivors: tuple[Kin, ...] = ()


class Spawner(Protocol):
    """A process below us that starts others for us, as the guardian does."""

    identity: tuple[int, int]

    def claims(self, pid: int) -> bool:
        """Whether the ended child `pid` was spawned there; its exit status is then kept for it."""


class OwnTree:
    """Everything that descends from this process and was not there when the object was made.

    Never the `guardian` itself, which reaps its own children. A process that a bystander starts
    later *and* orphans counts as ours: nothing distinguishes the two.
    """

    def __init__(self, guardian: Spawner | None = None) -> None:
        self._root = os.getpid()
        self._guardian = guardian
        self._killed: dict[tuple[int, int], Kin] = {}
        self._bystanders: frozenset[tuple[int, int]] = frozenset()
        self._bystanders = frozenset(kin.identity for kin in self._descendants())

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

        A process that ignores SIGINT gets SIGTERM at once, and SIGKILL if it ignores both:
        waiting for it is in vain. Returns as soon as none is left, or when time is up.
        """
        began = clock.now()
        ending = PoliteEnding()
        rounds = ((limit_s / 3, signal.SIGINT), (limit_s, signal.SIGTERM))
        for after_s, gentlest in rounds:
            left_s = began + after_s - clock.now()
            while left_s > 0:
                living = self.living(thorough=False)
                if not living:
                    break
                for kin in living:
                    if ending.ask(kin, gentlest) is signal.SIGKILL:
                        self._killed[kin.identity] = kin
                await wait_for_all(living[:_WATCHED_AT_ONCE], left_s)
                left_s = began + after_s - clock.now()

    def kill(self, limit_s: float) -> KillOutcome:
        """Send SIGKILL until none is left or time is up.

        Blocks for a few milliseconds, unless the kernel holds a process back.
        """
        deadline = clock.now() + limit_s
        quiet = 0
        # One empty look is not enough: a fork under way during it is seen by the next.
        while quiet < 2:
            living = self.living(thorough=quiet > 0)
            quiet = 0 if living else quiet + 1
            if living and clock.now() > deadline:
                return self._outcome(survivors=living)
            for kin in living:
                if send_signal(kin, signal.SIGKILL):
                    self._killed[kin.identity] = kin
            wait_for_one(living[:_WATCHED_AT_ONCE], _LOOK_AGAIN_S)
        return self._outcome()

    def _outcome(self, survivors: tuple[Kin, ...] = ()) -> KillOutcome:
        return KillOutcome(killed=tuple(self._killed.values()), survivors=survivors)

    def _descendants(self, *, thorough: bool = True) -> tuple[Kin, ...]:
        if thorough or not kernel_lists_children():
            table = read_table()
        else:
            table = _listed_below(self._root)
        processes = descendants(table, self._root, self._bystanders)
        if self._guardian is None:
            return processes
        spared = self._guardian.identity
        return tuple(kin for kin in processes if kin.identity != spared)

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

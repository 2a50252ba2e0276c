# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: finds, signals and reaps everything that descends from this one.

A process that calls setsid, forks twice or clears its environment leaves its group, its parent
and every marker. As child subreaper (prctl(2)) we become the parent of such orphans, so that a
walk from ourselves finds them all.
"""

import contextlib
import os
import weakref
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from ci_doctor.system.processes.children import children_of, kernel_lists_children
from ci_doctor.system.processes.process_table import Kin, descendants, look_up, read_table
from ci_doctor.system.processes.tree_stop import TreeStop


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
        self._stop = TreeStop(self.living, self._is_root)
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
        await self._stop.terminate(limit_s)

    def kill(self, limit_s: float, *, at_once: bool = False) -> KillOutcome:
        """Send SIGKILL until none is left or time is up.

        Blocks for a few milliseconds, unless helpers tidy up (they may not, `at_once`) or the
        kernel holds a process back.
        """
        survivors = self._stop.kill(limit_s, at_once=at_once)
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

# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: finds, signals and reaps everything that descends from this one, wherever it has fled to.

A process that calls setsid, forks twice or clears its environment leaves its group, its parent and every marker. As
"child subreaper" (prctl(2)) we become the parent of such orphans, so that a walk from ourselves finds them all.
"""

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.processes.children import children_of, kernel_lists_children
from ci_doctor.system.processes.process_table import (
    Kin,
    descendants,
    ignored_signals,
    look_up,
    read_table,
)

if TYPE_CHECKING:  # it makes us a subreaper, by this module
    from ci_doctor.system.guardian.client import Guardian

_PR_SET_CHILD_SUBREAPER = 36
_WATCHED_AT_ONCE = 16  # file descriptors; the rest is watched in the next round


class KillOutcome(Struct, frozen=True, kw_only=True):
    """`killed` were sent SIGKILL; `survivors` were still there at the deadline."""

    killed: tuple[Kin, ...] = ()
    survivors: tuple[Kin, ...] = ()


def become_subreaper() -> None:
    """Orphans below us become our children from now on. Raises InfraError where the system refuses."""
    import ctypes

    # A parent may have left SIGCHLD ignored, and then the kernel throws exit codes away (waitpid(2), Notes).
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise InfraError(
            f"this system does not let ci-doctor adopt orphaned processes: {os.strerror(ctypes.get_errno())}",
            hint="allow prctl(PR_SET_CHILD_SUBREAPER) in the container's seccomp profile",
        )


class OwnTree:
    """Everything that descends from this process and was not there when the object was made.

    Never the guardian itself, which reaps what is below it. A process that a bystander starts later *and* orphans is
    taken for ours: nothing tells the two apart.
    """

    def __init__(self, guardian: "Guardian | None" = None) -> None:
        self._root = os.getpid()
        self._guardian = guardian
        self._killed: dict[tuple[int, int], Kin] = {}
        self._bystanders: frozenset[tuple[int, int]] = frozenset()
        self._bystanders = frozenset(kin.identity for kin in self._descendants())

    def living(self, *, thorough: bool = True) -> tuple[Kin, ...]:
        """Reap what has ended, and say what lives.

        Not `thorough`: cheaper where the machine has many processes, and may miss one that comes or goes meanwhile.
        """
        living = []
        for kin in self._descendants(thorough=thorough):
            if not kin.ended:
                living.append(kin)
            elif kin.parent == self._root:
                self._reap(kin.pid)
        return tuple(living)

    def below(self, pid: int) -> tuple[Kin, ...]:
        """What lives of `pid` and all below it; what its death has made an orphan is below it no more."""
        table = tuple(read_table())
        own = tuple(kin for kin in table if kin.pid == pid)
        return tuple(
            kin for kin in (*own, *descendants(table, pid, self._bystanders)) if not kin.ended
        )

    async def terminate(self, limit_s: float) -> None:
        """SIGINT to all, also to those that appear meanwhile, and SIGTERM after a third of the time.

        A process that ignores SIGINT gets SIGTERM at once, and SIGKILL where it ignores both: waiting for it is in vain.
        Returns as soon as none is left, or when time is up.
        """
        began = clock.now()
        asked: dict[tuple[int, int], signal.Signals] = {}
        for deadline, gentlest in (
            (began + limit_s / 3, signal.SIGINT),
            (began + limit_s, signal.SIGTERM),
        ):
            while (living := self.living(thorough=False)) and (left := deadline - clock.now()) > 0:
                for kin in living:
                    if _ask_to_end(kin, gentlest, asked) is signal.SIGKILL:
                        self._killed[kin.identity] = kin
                await _all_ended(living[:_WATCHED_AT_ONCE], left)

    def kill(self, limit_s: float) -> KillOutcome:
        """SIGKILL until none is left or time is up; blocks, a few milliseconds unless the kernel holds one back."""
        deadline = clock.now() + limit_s
        killed = self._killed
        quiet = 0
        # A fork that was under way during one look is seen by the next.
        while quiet < 2:
            living = self.living(thorough=quiet > 0)
            quiet = 0 if living else quiet + 1
            if living and clock.now() > deadline:
                return KillOutcome(killed=tuple(killed.values()), survivors=living)
            for kin in living:
                if _send(kin, signal.SIGKILL):
                    killed[kin.identity] = kin
            _wait_for_one(living[:_WATCHED_AT_ONCE], 0.02)
        return KillOutcome(killed=tuple(killed.values()))

    def _descendants(self, *, thorough: bool = True) -> tuple[Kin, ...]:
        table = (
            read_table() if thorough or not kernel_lists_children() else _listed_below(self._root)
        )
        found = descendants(table, self._root, self._bystanders)
        if self._guardian is None:
            return found
        return tuple(kin for kin in found if kin.identity != self._guardian.identity)

    def _reap(self, pid: int) -> None:
        if self._guardian is not None and self._guardian.claims(pid):
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _listed_below(root: int) -> Iterator[Kin]:
    parents = [root]
    while parents:
        below = children_of(parents.pop())
        parents += below
        yield from filter(None, map(look_up, below))


def _open(kin: Kin) -> int | None:
    """A pidfd that is certainly of `kin`, not of a later process with its pid."""
    try:
        descriptor = os.pidfd_open(kin.pid)
    except ProcessLookupError:
        return None
    now = look_up(kin.pid)
    if now is not None and now.identity == kin.identity:
        return descriptor
    os.close(descriptor)
    return None


def _send(kin: Kin, number: signal.Signals) -> bool:
    descriptor = _open(kin)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except (
        ProcessLookupError,
        PermissionError,
    ):  # ended meanwhile, or another user's (setuid): told as a survivor
        return False
    finally:
        os.close(descriptor)
    return True


def _ask_to_end(
    kin: Kin, gentlest: signal.Signals, asked: dict[tuple[int, int], signal.Signals]
) -> signal.Signals | None:
    """Returns what was sent."""
    before = asked.get(kin.identity)
    if before is not None and (before is gentlest or before is not signal.SIGINT):
        return None
    ignored = ignored_signals(kin.pid)
    heard = next(
        (number for number in (gentlest, signal.SIGTERM) if number not in ignored), signal.SIGKILL
    )
    asked[kin.identity] = heard
    if (
        before is not None and heard is signal.SIGKILL
    ):  # it heard SIGINT, and has the rest of the time
        return None
    sent = _send(kin, heard)
    if kin.state == "T":  # a stopped process hears nothing but SIGKILL until it goes on
        _send(kin, signal.SIGCONT)
    return heard if sent else None


def _wait_for_one(living: Iterable[Kin], limit_s: float) -> None:
    descriptors = [descriptor for kin in living if (descriptor := _open(kin)) is not None]
    try:
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        if descriptors:
            poll.poll(limit_s * 1000)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


async def _all_ended(living: Iterable[Kin], limit_s: float) -> None:
    """Wait until each has ended, or for `limit_s`."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    waiting: set[int] = set()

    def ended(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        waiting.discard(descriptor)
        if not waiting and not done.done():
            done.set_result(None)

    try:
        for kin in living:
            if (descriptor := _open(kin)) is not None:
                waiting.add(descriptor)
                loop.add_reader(descriptor, ended, descriptor)
        if waiting:
            await asyncio.wait({done}, timeout=limit_s)
    finally:
        for descriptor in waiting:
            loop.remove_reader(descriptor)
            os.close(descriptor)

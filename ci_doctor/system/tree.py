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
from collections.abc import Callable, Iterable

from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.process_table import Kin, descendants, look_up, read_table

_PR_SET_CHILD_SUBREAPER = 36


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

    `reapers` wait for direct children that have an owner (who must get the exit code), by pid. A process that a
    bystander starts later *and* orphans is taken for ours: nothing tells the two apart.
    """

    def __init__(self) -> None:
        self._root = os.getpid()
        self._bystanders: frozenset[tuple[int, int]] = frozenset()
        self._bystanders = frozenset(kin.identity for kin in self._descendants())
        self.reapers: dict[int, Callable[[], object]] = {}

    def living(self) -> tuple[Kin, ...]:
        """Reap what has ended, and say what lives."""
        living = []
        for kin in self._descendants():
            if not kin.ended:
                living.append(kin)
            elif kin.parent == self._root:
                self._reap(kin.pid)
        return tuple(living)

    async def terminate(self, limit_s: float) -> None:
        """SIGTERM to each once, also to those that appear meanwhile; returns when none is left or time is up."""
        deadline = clock.now() + limit_s
        asked: set[tuple[int, int]] = set()
        while (living := self.living()) and (left := deadline - clock.now()) > 0:
            for kin in living:
                if kin.identity not in asked:
                    asked.add(kin.identity)
                    _ask_to_end(kin)
            await _all_ended(living, left)

    def kill(self, limit_s: float) -> KillOutcome:
        """SIGKILL until none is left or time is up; blocks, a few milliseconds unless the kernel holds one back."""
        deadline = clock.now() + limit_s
        killed: dict[tuple[int, int], Kin] = {}
        quiet = 0
        # A fork that was under way during one look is seen by the next.
        while quiet < 2:
            living = self.living()
            quiet = 0 if living else quiet + 1
            if living and clock.now() > deadline:
                return KillOutcome(killed=tuple(killed.values()), survivors=living)
            for kin in living:
                if _send(kin, signal.SIGKILL):
                    killed[kin.identity] = kin
            _wait_for_one(living, 0.02)
        return KillOutcome(killed=tuple(killed.values()))

    def _descendants(self) -> tuple[Kin, ...]:
        return descendants(read_table(), self._root, self._bystanders)

    def _reap(self, pid: int) -> None:
        if owner := self.reapers.get(pid):
            owner()
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


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
    except (ProcessLookupError, PermissionError):  # ended meanwhile, or another user's (setuid): told as a survivor
        return False
    finally:
        os.close(descriptor)
    return True


def _ask_to_end(kin: Kin) -> None:
    _send(kin, signal.SIGTERM)
    if kin.state == "T":  # a stopped process hears nothing but SIGKILL until it goes on
        _send(kin, signal.SIGCONT)


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

# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: stops a whole tree in order, helpers after what they help."""

import signal
from collections.abc import Callable, Sequence
from typing import Protocol

from ci_doctor.system import clock
from ci_doctor.system.processes import stop_order
from ci_doctor.system.processes.process_table import Kin
from ci_doctor.system.processes.signalling import (
    PoliteEnding,
    send_signal,
    wait_for_all,
    wait_for_one,
    wake,
)
from ci_doctor.system.processes.stop_order import SignalMasks, read_masks

_WATCHED_AT_ONCE = 16  # file descriptors; the rest is watched in the next round
_LOOK_AGAIN_S = 0.02
# First, helpers, deaf: as stop_order returns them.
Lots = tuple[list[Kin], list[Kin], list[Kin]]


class Look(Protocol):
    """Reaps what has ended, and returns what lives; less `thorough` is cheaper."""

    def __call__(self, *, thorough: bool = True) -> tuple[Kin, ...]:
        """Look once."""


class TreeStop:
    """The stop of a tree: first `terminate`, then `kill`, or `kill` alone.

    `killed` were sent SIGKILL. A process is asked by the gentlest signal that it does not ignore:
    SIGINT, and SIGTERM after a third of the time. A helper (stop_order.py) comes when all others
    have ended: one that hears a signal is asked after half a second of its own, one that ignores
    both is killed after two.
    """

    def __init__(self, look: Look, is_root: Callable[[Kin], bool]) -> None:
        self.killed: dict[tuple[int, int], Kin] = {}
        self._look = look
        self._is_root = is_root
        self._ending = PoliteEnding()
        self._has_asked = False
        self._alone_since: float | None = None

    async def terminate(self, limit_s: float) -> None:
        """Ask all to end; returns when none is left, or when only SIGKILL would help."""
        began = clock.now()
        while (age_s := clock.now() - began) < limit_s:
            living = self._look(thorough=False)
            if not living:
                return
            awaited, pause_s = self._next(self._order(living), age_s, limit_s)
            if pause_s <= 0:
                return
            await wait_for_all(awaited[:_WATCHED_AT_ONCE], min(pause_s, limit_s - age_s))

    def kill(self, limit_s: float, *, at_once: bool = False) -> tuple[Kin, ...]:
        """Send SIGKILL to all, to helpers last unless `at_once`.

        Returns what lives after `limit_s` seconds.
        """
        deadline = clock.now() + limit_s
        quiet = 0
        # One empty look is not enough: a fork under way during it is seen by the next.
        while quiet < 2:
            living = self._look(thorough=quiet > 0)
            quiet = 0 if living else quiet + 1
            if living and clock.now() > deadline:
                return living
            for kin in living if at_once else self._doomed(living, limit_s):
                self._kill(kin)
            wait_for_one(living[:_WATCHED_AT_ONCE], _LOOK_AGAIN_S)
        return ()

    def _order(self, living: Sequence[Kin]) -> Lots:
        return stop_order.stop_order(living, self._is_root, self._masks)

    def _masks(self, kin: Kin) -> SignalMasks:
        # Whoever was asked is on its way, even if it ignores further requests by now.
        if self._ending.has_asked(kin):
            return SignalMasks()
        return read_masks(kin.pid)

    def _next(self, lots: Lots, age_s: float, limit_s: float) -> tuple[Sequence[Kin], float]:
        """Ask those whose turn it is; returns whom to wait for, and for how many seconds."""
        first, helpers, _ = lots
        if not first:
            return self._next_of_helpers(lots, limit_s)
        self._alone_since = None
        gentlest = signal.SIGINT if age_s < limit_s / 3 else signal.SIGTERM
        self._ask(first, gentlest)
        # A server that lasts so long may be waiting for its helper.
        if age_s >= limit_s * 2 / 3:
            self._ask(helpers, gentlest)
        steps = (limit_s / 3, limit_s * 2 / 3, limit_s)
        return first, min(step for step in steps if step > age_s) - age_s

    def _next_of_helpers(self, lots: Lots, limit_s: float) -> tuple[Sequence[Kin], float]:
        _, helpers, deaf = lots
        alone_s = self._alone_s()
        if helpers and alone_s < stop_order.OWN_TIME_S:
            both = (*helpers, *deaf)
            self._wake(both)
            return both, stop_order.OWN_TIME_S - alone_s
        if helpers:
            self._ask(helpers, signal.SIGTERM)
            return helpers, limit_s
        # Nothing has ended that a root could wait for the end of.
        if not self._has_asked:
            self._kill_roots(deaf)
        self._wake(deaf)
        return deaf, stop_order.HELPERS_S - alone_s

    def _doomed(self, living: Sequence[Kin], limit_s: float) -> Sequence[Kin]:
        """Those of `living` to be killed now."""
        first, _, deaf = self._order(living)
        roots = [kin for kin in deaf if self._is_root(kin)]
        if first or roots:
            self._alone_since = None
            return (*first, *roots)
        if not living:
            return ()
        if self._alone_s() >= min(stop_order.HELPERS_S, limit_s / 2):
            return living
        self._wake(living)
        return ()

    def _alone_s(self) -> float:
        """How long helpers have been alone: seconds."""
        now = clock.now()
        if self._alone_since is None:
            self._alone_since = now
        return now - self._alone_since

    def _ask(self, processes: Sequence[Kin], gentlest: signal.Signals) -> None:
        for kin in processes:
            self._has_asked = True
            self._ending.ask(kin, gentlest)

    def _kill_roots(self, processes: Sequence[Kin]) -> None:
        for kin in processes:
            if self._is_root(kin):
                self._kill(kin)

    def _kill(self, kin: Kin) -> None:
        if send_signal(kin, signal.SIGKILL):
            self.killed[kin.identity] = kin

    def _wake(self, processes: Sequence[Kin]) -> None:
        for kin in processes:
            wake(kin)


async def kill_in_order(processes: Sequence[Kin], limit_s: float) -> None:
    """Send SIGKILL to `processes`, to helpers only if they outlive the others.

    Waits for at most `limit_s` seconds for those that the kernel holds back, each time.
    """
    first, helpers, deaf = stop_order.stop_order(
        processes, lambda _: False, lambda kin: read_masks(kin.pid)
    )
    await _kill_and_wait(first, limit_s)
    later = (*helpers, *deaf)
    await wait_for_all(later, stop_order.HELPERS_S)
    await _kill_and_wait(later, limit_s)


async def _kill_and_wait(processes: Sequence[Kin], limit_s: float) -> None:
    for kin in processes:
        send_signal(kin, signal.SIGKILL)
    await wait_for_all(processes, limit_s)

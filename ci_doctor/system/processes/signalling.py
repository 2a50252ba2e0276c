# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: signals exactly the process that is meant, and waits for its end.

All goes by pidfds (pidfd_open(2)): a pid alone may belong to a later process by the time of use.
"""

import asyncio
import os
import select
import signal
from collections.abc import Iterable

from ci_doctor.system.processes.process_table import Kin, look_up
from ci_doctor.system.processes.stop_order import POLITE, read_masks


def send_signal(kin: Kin, number: signal.Signals) -> bool:
    """Send a signal; False if the process has ended, or belongs to another user (setuid)."""
    descriptor = _open(kin)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


class PoliteEnding:
    """Asks processes to end, each by the gentlest signal that it does not ignore."""

    def __init__(self) -> None:
        self._sent: dict[tuple[int, int], signal.Signals] = {}

    def has_asked(self, kin: Kin) -> bool:
        """Whether this process was asked before."""
        return kin.identity in self._sent

    def ask(self, kin: Kin, gentlest: signal.Signals) -> signal.Signals | None:
        """Send `gentlest` (SIGINT or SIGTERM), or the other one if that is ignored.

        Returns the signal that was sent; None if this process needs no further one now, or ignores
        both.
        """
        before = self._sent.get(kin.identity)
        if before not in {None, signal.SIGINT} or before is gentlest:
            return None
        number = _first_not_ignored(kin.pid, gentlest)
        # It handled SIGINT and only ignores SIGTERM: it has the rest of the time for its ending.
        if number is None or number is before:
            return None
        self._sent[kin.identity] = number
        sent = send_signal(kin, number)
        wake(kin)
        return number if sent else None


def wake(kin: Kin) -> None:
    """Continue a stopped process: it acts on nothing but SIGKILL until then (signal(7))."""
    if kin.state == "T":
        send_signal(kin, signal.SIGCONT)


def _first_not_ignored(pid: int, gentlest: signal.Signals) -> signal.Signals | None:
    masks = read_masks(pid)
    for number in (gentlest, *POLITE):
        if not masks.ignores(number):
            return number
    return None


def wait_for_one(processes: Iterable[Kin], limit_s: float) -> None:
    """Block until one of `processes` has ended, or for `limit_s` seconds."""
    descriptors = []
    try:
        for kin in processes:
            descriptor = _open(kin)
            if descriptor is not None:
                descriptors.append(descriptor)
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        if descriptors:
            poll.poll(limit_s * 1000)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


async def wait_for_all(processes: Iterable[Kin], limit_s: float) -> None:
    """Wait until each of `processes` has ended, or for `limit_s` seconds."""
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
        for kin in processes:
            descriptor = _open(kin)
            if descriptor is not None:
                waiting.add(descriptor)
                loop.add_reader(descriptor, ended, descriptor)
        if waiting:
            await asyncio.wait({done}, timeout=limit_s)
    finally:
        for descriptor in waiting:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _open(kin: Kin) -> int | None:
    """A pidfd of `kin`; None if it has ended."""
    try:
        descriptor = os.pidfd_open(kin.pid)
    except ProcessLookupError:
        return None
    # Looked up after the pidfd was opened: from here on the pid cannot pass to another process
    # without the pidfd showing it.
    now = look_up(kin.pid)
    if now is not None and now.identity == kin.identity:
        return descriptor
    os.close(descriptor)
    return None

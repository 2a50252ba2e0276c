# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: stops a whole tree in order, helpers after what they help.

A helper of a server outlives it for a moment: it waits for the end of a pipe, and then unlinks
shared memory or removes temporary files (Python's resource tracker does). It ignores what is sent
to the whole tree, so as not to end first. So what can be asked ends first, and such helpers have
some time of their own after that.

All goes by pidfds (pidfd_open(2)): a pid alone may belong to a later process by the time of use.

Standard library only, and little of it, for the reason that `process_table` gives.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from ci_doctor.system.processes.process_table import Kin, look_up

# First, helpers, deaf: as `stop_order` returns them.
Lots = tuple[list[Kin], list[Kin], list[Kin]]

# The gentlest first.
POLITE = (signal.SIGINT, signal.SIGTERM)
# After everything else has ended: what ignores both signals ends by itself within this, or never.
HELPERS_S = 2.0
# What hears one of them, and relies on the end of a pipe all the same (a fork server).
OWN_TIME_S = 0.5
_MASKS = {b"SigBlk": "blocked", b"SigIgn": "ignored", b"SigCgt": "caught"}


class SignalMasks:
    """How a process takes signals: the masks of proc_pid_status(5). 0 is: as a new process does."""

    __slots__ = ("blocked", "caught", "ignored")

    def __init__(self, blocked: int = 0, ignored: int = 0, caught: int = 0) -> None:
        self.blocked = blocked
        self.ignored = ignored
        self.caught = caught

    def ignores(self, number: int) -> bool:
        """Whether the signal has no effect at all."""
        return bool(self.ignored >> (number - 1) & 1)

    def puts_off(self, number: int) -> bool:
        """Whether the signal has no effect now: it is ignored or blocked."""
        return bool((self.ignored | self.blocked) >> (number - 1) & 1)

    def handles(self, number: int) -> bool:
        """Whether the program has a handler that runs at once."""
        return bool(self.caught >> (number - 1) & 1) and not self.puts_off(number)

    @property
    def is_deaf(self) -> bool:
        """Whether it ignores every request to end."""
        return all(map(self.ignores, POLITE))

    @property
    def is_of_a_helper(self) -> bool:
        """Whether it puts off a request to end, and has no handler for another one.

        A server that ignores SIGINT handles SIGTERM; one that blocks both waits for them by
        sigwait(3), and gets them all the same.
        """
        return any(map(self.puts_off, POLITE)) and not any(map(self.handles, POLITE))


def read_masks(pid: int) -> SignalMasks:
    """The masks of a process; all 0 if they cannot be read."""
    masks: dict[str, int] = {}
    try:
        # As in process_table: thousands of processes, and one plain read of each.
        descriptor = os.open(f"/proc/{pid}/status", os.O_RDONLY)
    except OSError:
        return SignalMasks()
    try:
        for line in os.read(descriptor, 8192).splitlines():
            name, _, value = line.partition(b":")
            if name in _MASKS:
                masks[_MASKS[name]] = int(value, 16)
    except OSError:
        return SignalMasks()
    finally:
        os.close(descriptor)
    return SignalMasks(**masks)


def stop_order(
    living: Iterable[Kin],
    is_root: Callable[[Kin], bool],
    masks_of: Callable[[Kin], SignalMasks],
) -> Lots:
    """Those of `living` to be asked first, the helpers that can be asked, and the deaf helpers.

    `is_root` names the processes that nobody's end would tell to end.

    Those are no helpers, and neither are the parents of others that are asked: a master that
    ignores one signal would start its workers again.
    """
    rows = list(living)
    masks = {row.pid: masks_of(row) for row in rows}
    first: list[Kin] = []
    helpers: list[Kin] = []
    deaf: list[Kin] = []
    for row in rows:
        own = masks[row.pid]
        if own.is_deaf:
            deaf.append(row)
        elif own.is_of_a_helper and not is_root(row):
            helpers.append(row)
        else:
            first.append(row)
    masters = _parents_of(first, {row.pid: row for row in helpers})
    first += [row for row in helpers if row.pid in masters]
    helpers = [row for row in helpers if row.pid not in masters]
    return first, helpers, deaf


def _parents_of(rows: Iterable[Kin], among: Mapping[int, Kin]) -> set[int]:
    """The pids of `among` that are above one of `rows`."""
    ancestors: set[int] = set()
    for row in rows:
        parent = row.parent
        while parent in among and parent not in ancestors:
            ancestors.add(parent)
            parent = among[parent].parent
    return ancestors


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
    # The guardian never waits here, and asyncio takes longer to load than all that it needs.
    import asyncio

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


class TreeStop:
    """Whom to ask or to kill at each look at a tree that shall end.

    `killed` were sent SIGKILL. A process is asked by the gentlest signal that it does not ignore:
    `gentlest`, and SIGTERM after a third of the time. A helper comes when all others
    have ended: one that hears a signal is asked after half a second of its own, one that ignores
    both is killed after two. `is_root` names the processes that nobody's end would tell to end.
    """

    def __init__(
        self, is_root: Callable[[Kin], bool], gentlest: signal.Signals = signal.SIGINT
    ) -> None:
        self.killed: dict[tuple[int, int], Kin] = {}
        self._is_root = is_root
        self._gentlest = gentlest
        self._ending = PoliteEnding()
        self._has_asked = False
        self._alone_since: float | None = None

    def ask(
        self, living: Sequence[Kin], age_s: float, limit_s: float
    ) -> tuple[Sequence[Kin], float]:
        """Ask those whose turn it is, `age_s` of `limit_s` seconds after the beginning.

        Returns whom to wait for, and for how many seconds: 0 if only SIGKILL would help.
        """
        first, helpers, deaf = self._order(living)
        if not first:
            return self._ask_helpers(helpers, deaf, limit_s)
        self._alone_since = None
        gentlest = self._gentlest if age_s < limit_s / 3 else signal.SIGTERM
        self._ask(first, gentlest)
        # A server that lasts so long may be waiting for its helper.
        if age_s >= limit_s * 2 / 3:
            self._ask(helpers, gentlest)
        steps = (limit_s / 3, limit_s * 2 / 3, limit_s)
        return first, min((step for step in steps if step > age_s), default=age_s) - age_s

    def kill(self, living: Sequence[Kin], limit_s: float) -> None:
        """Kill those whose turn it is: helpers last, within half of `limit_s` seconds."""
        first, _, deaf = self._order(living)
        roots = [kin for kin in deaf if self._is_root(kin)]
        if first or roots:
            self._alone_since = None
            self.kill_all((*first, *roots))
        elif living and self._alone_s() >= min(HELPERS_S, limit_s / 2):
            self.kill_all(living)
        else:
            self._wake(living)

    def kill_all(self, processes: Iterable[Kin]) -> None:
        """Kill these, whatever they are."""
        for kin in processes:
            if send_signal(kin, signal.SIGKILL):
                self.killed[kin.identity] = kin

    def _order(self, living: Iterable[Kin]) -> Lots:
        return stop_order(living, self._is_root, self._masks)

    def _masks(self, kin: Kin) -> SignalMasks:
        # Whoever was asked is on its way, even if it ignores further requests by now.
        if self._ending.has_asked(kin):
            return SignalMasks()
        return read_masks(kin.pid)

    def _ask_helpers(
        self, helpers: Sequence[Kin], deaf: Sequence[Kin], limit_s: float
    ) -> tuple[Sequence[Kin], float]:
        alone_s = self._alone_s()
        if helpers and alone_s < OWN_TIME_S:
            both = (*helpers, *deaf)
            self._wake(both)
            return both, OWN_TIME_S - alone_s
        if helpers:
            self._ask(helpers, signal.SIGTERM)
            return helpers, limit_s
        # Nothing has ended that a root could wait for the end of.
        if not self._has_asked:
            self.kill_all(filter(self._is_root, deaf))
        self._wake(deaf)
        return deaf, HELPERS_S - alone_s

    def _alone_s(self) -> float:
        """How long helpers have been alone: seconds."""
        now = time.monotonic()
        if self._alone_since is None:
            self._alone_since = now
        return now - self._alone_since

    def _ask(self, processes: Sequence[Kin], gentlest: signal.Signals) -> None:
        for kin in processes:
            self._has_asked = True
            self._ending.ask(kin, gentlest)

    def _wake(self, processes: Sequence[Kin]) -> None:
        for kin in processes:
            wake(kin)


async def kill_in_order(processes: Sequence[Kin], limit_s: float) -> None:
    """Send SIGKILL to `processes`, to helpers only if they outlive the others.

    Waits for at most `limit_s` seconds for those that the kernel holds back, each time.
    """
    first, helpers, deaf = stop_order(processes, lambda _: False, lambda kin: read_masks(kin.pid))
    await _kill_and_wait(first, limit_s)
    later = (*helpers, *deaf)
    await wait_for_all(later, HELPERS_S)
    await _kill_and_wait(later, limit_s)


async def _kill_and_wait(processes: Sequence[Kin], limit_s: float) -> None:
    for kin in processes:
        send_signal(kin, signal.SIGKILL)
    await wait_for_all(processes, limit_s)

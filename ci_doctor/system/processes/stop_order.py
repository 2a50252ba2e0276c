# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: in which order processes are asked to end, by how they take SIGINT and SIGTERM.

A helper of a server outlives it for a moment: it waits for the end of a pipe, and then unlinks
shared memory or removes temporary files (Python's resource tracker does). It ignores what is sent
to the whole tree, so as not to end first. So what can be asked ends first, and such helpers have
some time of their own after that.

Standard library only, and little of it: the guardian uses it too.
"""

import os
import signal

# typing itself would take the guardian as long as all the rest of its imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Protocol, TypeVar

    class Relative(Protocol):
        """A row of the process table, of whatever type."""

        @property
        def pid(self) -> int:
            """Its id."""

        @property
        def parent(self) -> int:
            """That of its parent."""

    Row = TypeVar("Row", bound=Relative)
    Lots = tuple[list[Row], list[Row], list[Row]]

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
    living: "Iterable[Row]",
    is_root: "Callable[[Row], bool]",
    masks_of: "Callable[[Row], SignalMasks]",
) -> "Lots[Row]":
    """Those of `living` to be asked first, the helpers that can be asked, and the deaf helpers.

    `is_root` names the processes that nobody's end would tell to end.

    Those are no helpers, and neither are the parents of others that are asked: a master that
    ignores one signal would start its workers again.
    """
    rows = list(living)
    masks = {row.pid: masks_of(row) for row in rows}
    first: list[Row] = []
    helpers: list[Row] = []
    deaf: list[Row] = []
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


def _parents_of(rows: "Iterable[Row]", among: "Mapping[int, Row]") -> set[int]:
    """The pids of `among` that are above one of `rows`."""
    ancestors: set[int] = set()
    for row in rows:
        parent = row.parent
        while parent in among and parent not in ancestors:
            ancestors.add(parent)
            parent = among[parent].parent
    return ancestors

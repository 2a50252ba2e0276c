# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts entry points, two at once, and reads how each ended."""

import signal
import threading
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points.entry_point import EntryCommand
from ci_doctor.system import clock
from ci_doctor.system.processes.limited_runs import SeparateRun

# More at once would read the same disk, and each may take gigabytes of memory.
_AT_ONCE: Final = 2
# Together they have the time of Cost.IMPORT; what is left is for the stacks of one that hangs.
TOGETHER_S: Final = 55.0


class ProbedEntry(Struct, frozen=True, kw_only=True):
    """An entry point and how it ended; `not_started` says why it could not be started."""

    entry: EntryCommand
    run: SeparateRun | None = None
    not_started: str | None = None


class ProbeTurns:
    """The turns of all checks that start entry points: two at once, and all in TOGETHER_S."""

    def __init__(self) -> None:
        self._turns = threading.Semaphore(_AT_ONCE)
        self._ends_at = clock.now() + TOGETHER_S

    def probe(self, entry: EntryCommand, context: CheckContext) -> ProbedEntry:
        """Wait for a turn, and start `entry`."""
        with self._turns:
            left_s = self._ends_at - clock.now()
            if left_s <= 0:
                reason = f"the {TOGETHER_S:g} s of all entry points were over before its turn"
                return ProbedEntry(entry=entry, not_started=reason)
            return _probe(entry, context, left_s)


def probe_turns(_context: CheckContext) -> ProbeTurns:
    """The turns of one run. For CheckContext.shared."""
    return ProbeTurns()


def probe_all(entries: Sequence[EntryCommand], context: CheckContext) -> list[ProbedEntry]:
    """Start each of `entries`, and wait for all of them."""
    turns = context.shared(probe_turns)
    probed: list[ProbedEntry | None] = [None] * len(entries)

    def take(index: int) -> None:
        probed[index] = turns.probe(entries[index], context)

    threads = []
    for index in range(len(entries)):
        thread = threading.Thread(target=take, args=(index,), daemon=True)
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    return [each for each in probed if each is not None]


def _probe(entry: EntryCommand, context: CheckContext, left_s: float) -> ProbedEntry:
    # With PYTHONFAULTHANDLER a Python writes the stack of each thread at SIGABRT: where it hangs.
    environ = {**context.environ, **entry.env, "PYTHONFAULTHANDLER": "1"}
    try:
        run = context.programs.run(
            entry.words,
            cwd=entry.cwd or context.cwd,
            environ=environ,
            timeout_s=left_s,
            last_signal=signal.SIGABRT,
        )
    except OSError as error:
        return ProbedEntry(entry=entry, not_started=error.strerror or str(error))
    return ProbedEntry(entry=entry, run=run)

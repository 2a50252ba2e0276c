# SPDX-License-Identifier: Apache-2.0
"""Runs with delays: in which order they are made, and what they show of each hazard. Pure.

The caller makes the runs.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.imports.analyse.harm import was_handed_out
from ci_doctor.imports.confirm.delays import Hold, RaceCandidate, fired, holds, met, was_held
from ci_doctor.imports.record.recorded import RecordedRun

# The other thread can be past the moment already. Then only another run brings the two together.
REPEATS = 3
# For a run that hangs because its race fired; a healthy one takes about as long as the recorded.
_LEAST_S = 60.0
_TIMES_AS_LONG = 5.0


class HeldRun(Struct, frozen=True, kw_only=True):
    """One run with one delay; `output` and `error` are the files into which it printed.

    ended_as_recorded: it ended with the same status as the run without a delay. newly_failed: the
    modules whose import failed in this run only. rule: the preload rule that held, if one was tried.
    """

    number: int
    hold: Hold
    recorded: RecordedRun
    output: Path
    error: Path
    ended_as_recorded: bool = True
    newly_failed: tuple[str, ...] = ()
    rule: str | None = None

    @property
    def was_held(self) -> bool:
        """Whether the delay was made."""
        return was_held(self.recorded.processes)

    @property
    def met(self) -> bool:
        """Whether another thread arrived during it."""
        return met(self.recorded.processes)

    @property
    def is_conclusive(self) -> bool:
        """Whether a hazard that did not fire in it cannot be made to fire by its delay.

        A run that ended with another status than the recorded one may not have come as far as the
        other import, unless that one arrived.
        """
        if not self.was_held or self.recorded.received is not None or self.recorded.timed_out:
            return False
        return self.ended_as_recorded or self.met


class Confirmation(Struct, frozen=True, kw_only=True):
    """What the runs show of one candidate: those made for it, and the one in which it fired.

    handed_out_in: the runs in which a thread was handed a wrong module.
    """

    candidate: RaceCandidate
    runs: tuple[HeldRun, ...] = ()
    fired_in: HeldRun | None = None
    handed_out_in: tuple[HeldRun, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether it fired, or a run was conclusive without it."""
        if self.fired_in is not None or self.handed_out_in:
            return True
        return any(run.is_conclusive for run in self.runs)

    def with_run(self, run: HeldRun, *, is_own: bool) -> "Confirmation":
        """What is known after `run`; `is_own` if the run was made for this candidate."""
        handed_out_in = self.handed_out_in
        if self._was_handed_out(run):
            handed_out_in = (*handed_out_in, run)
        fired_in = self.fired_in
        if fired_in is None and self._fired(run):
            fired_in = run
        # A delay for another candidate shows only what fired, never that nothing can.
        runs = self.runs
        if is_own:
            runs = (*runs, run)
        return Confirmation(
            candidate=self.candidate, runs=runs, fired_in=fired_in, handed_out_in=handed_out_in
        )

    def needs(self, hold: Hold) -> bool:
        """Whether a run with the delay `hold` can still show something new."""
        if self.fired_in is not None:
            return False
        # A thread was handed the module at the very place of the delay: no run shows another one.
        return all(run.hold != hold for run in self.handed_out_in)

    def _fired(self, run: HeldRun) -> bool:
        processes = run.recorded.processes
        if any(fired(hazard, processes) for hazard in self.candidate.hazards):
            return True
        # What was handed out may do harm in a way that no single read shows.
        went_wrong = bool(run.newly_failed) or not run.ended_as_recorded
        return went_wrong and self._was_handed_out(run)

    def _was_handed_out(self, run: HeldRun) -> bool:
        processes = run.recorded.processes
        return any(was_handed_out(hazard, processes) for hazard in self.candidate.hazards)


def confirm(
    candidates: Sequence[RaceCandidate],
    run: Callable[[int, Hold], HeldRun],
    say: Callable[[str], None],
    *,
    repeats: int = REPEATS,
) -> tuple[Confirmation, ...]:
    """Try each of `candidates`, until it fires, in at most `repeats` runs for each of its delays.

    `run` makes the run of that number, from 1. After a run that a signal ended no other is made.
    """
    confirmations = [Confirmation(candidate=candidate) for candidate in candidates]
    number = 0
    for index, candidate in enumerate(candidates):
        for hold in _tries(candidate, repeats):
            # A run for another candidate may have shown this one too.
            if not confirmations[index].needs(hold):
                continue
            number += 1
            say(f"confirming {index + 1}/{len(candidates)}: {hold.describe()}…")
            held = run(number, hold)
            for other, confirmation in enumerate(confirmations):
                confirmations[other] = confirmation.with_run(held, is_own=other == index)
            if held.recorded.received is not None:
                return tuple(confirmations)
    return tuple(confirmations)


def _tries(candidate: RaceCandidate, repeats: int) -> Iterator[Hold]:
    # Each delay once before any of them a second time: the first that works ends the search.
    for _ in range(repeats):
        yield from holds(candidate.worst)


def time_limit_s(recorded: RecordedRun, hold: Hold, timeout_s: float | None) -> float:
    """How many seconds a run with a delay may take.

    It takes as long as the recorded run and the delays, unless the race makes it hang.
    """
    # In each process both threads of the pair may be delayed, one after the other.
    delays_s = 2 * hold.limit_s * max(1, len(recorded.processes))
    if timeout_s is not None:
        return timeout_s + delays_s
    return _LEAST_S + _TIMES_AS_LONG * recorded.duration_s + delays_s

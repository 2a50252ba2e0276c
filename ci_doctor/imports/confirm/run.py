# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a command again and again, each time with a delay that could make one of its hazards happen."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.imports.confirm.delays import Candidate, Hold, fired, holds, met, was_held
from ci_doctor.imports.record.run import RecordedRun

REPEATS = 3  # the other thread can be past the moment already, and then the roles of another run are needed
_LEAST_S = 60.0
_TIMES_AS_LONG = 5.0


class HeldRun(Struct, frozen=True, kw_only=True):
    """One run with one delay; `output` and `error` are the files that it printed into.

    ended_as_recorded: with the same status as the run without a delay.
    """

    number: int
    hold: Hold
    recorded: RecordedRun
    output: Path
    error: Path
    ended_as_recorded: bool = True

    @property
    def was_held(self) -> bool:
        """Whether the delay was made."""
        return was_held(self.recorded.processes)

    @property
    def met(self) -> bool:
        """Whether another thread came during it."""
        return met(self.recorded.processes)


class Confirmation(Struct, frozen=True, kw_only=True):
    """What became of one candidate: the runs that were made for it, and the one in which it happened, if it did."""

    candidate: Candidate
    runs: tuple[HeldRun, ...] = ()
    fired_in: HeldRun | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it has happened, or its import was delayed and the run came to its end without it.

        A run that ended otherwise than the recorded one may not have come as far as the other import, unless that one came.
        """
        tried = [run for run in self.runs if run.was_held and run.recorded.received is None]
        whole = [
            run
            for run in tried
            if not run.recorded.timed_out and (run.ended_as_recorded or run.met)
        ]
        return self.fired_in is not None or bool(whole)


def confirm(
    candidates: Sequence[Candidate],
    run: Callable[[int, Hold], HeldRun],
    say: Callable[[str], None],
    *,
    repeats: int = REPEATS,
) -> tuple[Confirmation, ...]:
    """Try each of `candidates`; `run` makes the run of that number. It ends with the first run that a signal has ended."""
    confirmations = {
        index: Confirmation(candidate=candidate) for index, candidate in enumerate(candidates)
    }
    number = 0
    for index, candidate in enumerate(candidates):
        for hold in [hold for _ in range(repeats) for hold in holds(candidate.worst)]:
            if confirmations[index].fired_in is not None:
                break
            number += 1
            say(f"confirming {index + 1}/{len(candidates)}: {hold.describe()}…")
            held = run(number, hold)
            _take(confirmations, index, held)
            if held.recorded.received is not None:
                return tuple(confirmations.values())
    return tuple(confirmations.values())


def _take(confirmations: dict[int, Confirmation], index: int, held: HeldRun) -> None:
    """A run made for one candidate may show another one too."""
    for each, known in confirmations.items():
        runs = (*known.runs, held) if each == index else known.runs
        shown = known.fired_in is None and any(
            fired(hazard, held.recorded.processes) for hazard in known.candidate.hazards
        )
        confirmations[each] = Confirmation(
            candidate=known.candidate, runs=runs, fired_in=held if shown else known.fired_in
        )


def time_limit_s(recorded: RecordedRun, hold: Hold, timeout_s: float | None) -> float:
    """How long a run with a delay may take, in seconds: it is only later than the first one, unless the race hangs it."""
    delays_s = 2 * hold.limit_s * max(1, len(recorded.processes))
    if timeout_s is not None:
        return timeout_s + delays_s
    return _LEAST_S + _TIMES_AS_LONG * recorded.duration_s + delays_s

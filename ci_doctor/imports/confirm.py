# SPDX-License-Identifier: Apache-2.0
"""Pure. Runs with delays: which ones would make a hazard happen, and what they show."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.imports.crossings import Hold, badness
from ci_doctor.imports.hazards import did_harm, kind_of, was_handed_out
from ci_doctor.imports.trace import HeldImport, RecordedProcess, RecordedRun
from ci_doctor.model.facts.import_race import Closeness, Hazard, RuleStanding, Standing
from ci_doctor.preload.preload_rule import PreloadRule

# The other thread can be past the moment already. Then only another run brings the two together.
REPEATS = 3
# For a run that hangs because its race fired; a healthy one takes about as long as the recorded.
_LEAST_S = 60.0
_TIMES_AS_LONG = 5.0


class HeldRun(Struct, frozen=True, kw_only=True):
    """One run with one delay; `output` and `error` are the files into which it printed.

    ended_as_recorded: it ended with the same status as the run without a delay. newly_failed: the
    modules whose import failed in this run only. rule: the preload rule that held, if one was tried.
    preloaded: what the shim wrote then.
    """

    number: int
    hold: Hold
    recorded: RecordedRun
    output: Path
    error: Path
    ended_as_recorded: bool = True
    newly_failed: tuple[str, ...] = ()
    rule: str | None = None
    preloaded: str = ""

    @property
    def was_held(self) -> bool:
        """Whether the delay was made."""
        return bool(self._delays())

    @property
    def met(self) -> bool:
        """Whether another thread arrived during it."""
        return any(delay.met for delay in self._delays())

    def _delays(self) -> list[HeldImport]:
        events = [event for process in self.recorded.processes for event in process.events]
        return [event for event in events if isinstance(event, HeldImport)]

    @property
    def is_conclusive(self) -> bool:
        """Whether a hazard that did not fire in it cannot be made to fire by its delay.

        A run that ended with another status than the recorded one may not have come as far as the
        other import, unless that one arrived.
        """
        if not self.was_held or self.recorded.received is not None or self.recorded.timed_out:
            return False
        return self.ended_as_recorded or self.met


class Race(Struct, kw_only=True, eq=False):
    """Hazards that the same delays decide, the worst first, and what the runs with a delay show of them.

    They have the same modules at several places, or in several processes. runs: those that were made
    for it. fired_in: the run, for whichever race, in which it did harm. handed_out_in: those in which
    a thread was handed a wrong module.
    """

    hazards: tuple[Hazard, ...]
    runs: tuple[HeldRun, ...] = ()
    fired_in: HeldRun | None = None
    handed_out_in: tuple[HeldRun, ...] = ()
    standing: Standing = Standing.POSSIBLE

    @property
    def worst(self) -> Hazard:
        """The hazard that stands for all."""
        return self.hazards[0]

    @property
    def has_fired(self) -> bool:
        """Whether one of them did harm without any delay."""
        return self.worst.closeness is Closeness.FIRED

    @property
    def delays(self) -> tuple[Hold, ...]:
        """The delays that can make it fire; none if no run decides it."""
        return kind_of(self.worst).delays(self.worst)

    @property
    def hold(self) -> Hold | None:
        """The delay that made it fire."""
        return None if self.fired_in is None else self.fired_in.hold

    def take(self, run: HeldRun, *, is_own: bool) -> None:
        """Keep what `run` shows; `is_own` if it was made for this race."""
        processes = run.recorded.processes
        is_handed_out = any(was_handed_out(each, processes) for each in self.hazards)
        # What was handed out may do harm in a way that no single read shows.
        went_wrong = bool(run.newly_failed) or not run.ended_as_recorded
        has_fired = any(did_harm(each, processes) for each in self.hazards)
        # A delay for another race shows only what fired, never that nothing can.
        if is_own:
            self.runs = (*self.runs, run)
        if is_handed_out:
            self.handed_out_in = (*self.handed_out_in, run)
        if self.fired_in is None and (has_fired or (is_handed_out and went_wrong)):
            self.fired_in = run

    def needs(self, hold: Hold) -> bool:
        """Whether a run with the delay `hold` can still show something new."""
        # A thread was handed the module at the very place of the delay: no run shows another one.
        is_known = any(run.hold == hold for run in self.handed_out_in)
        return self.fired_in is None and not is_known

    def judge(self, *, confirming: bool, command_failed: bool) -> None:
        """Decide its standing. command_failed: the recorded run failed, so what was handed out in it was harm."""
        was_handed_out = self.worst.closeness is Closeness.HANDED_OUT
        if self.has_fired or (command_failed and was_handed_out):
            self.standing = Standing.FIRED
        elif self.fired_in is not None:
            self.standing = Standing.CONFIRMED
        elif not (self.handed_out_in or any(run.is_conclusive for run in self.runs)):
            self.standing = Standing.OPEN if confirming else Standing.POSSIBLE
        else:
            is_harmless = was_handed_out or self.handed_out_in
            self.standing = Standing.HARMLESS if is_harmless else Standing.SAFE


def races(hazards: Iterable[Hazard]) -> tuple[Race, ...]:
    """The hazards of all processes by what decides them, the worst first."""
    groups: dict[tuple[object, ...], list[Hazard]] = {}
    for hazard in sorted(hazards, key=badness):
        # Without the limits: how long to wait differs from place to place.
        delays = [(hold.mode, hold.x, hold.y) for hold in kind_of(hazard).delays(hazard)]
        groups.setdefault((hazard.kind, hazard.modules, *delays), []).append(hazard)
    return tuple(Race(hazards=tuple(group)) for group in groups.values())


def confirm(
    chosen: Sequence[Race],
    run: Callable[[int, Hold], HeldRun],
    say: Callable[[str], None],
    *,
    repeats: int = REPEATS,
) -> None:
    """Try each of the `chosen` races, until it fires, in at most `repeats` runs for each of its delays.

    `run` makes the run of that number, from 1. After a run that a signal ended no other is made.
    """
    number = 0
    for index, race in enumerate(chosen):
        # Each delay once before any of them a second time: the first that works ends the search.
        for hold in race.delays * repeats:
            # A run for another race may have shown this one too.
            if not race.needs(hold):
                continue
            number += 1
            say(f"confirming {index + 1}/{len(chosen)}: {hold.describe()}…")
            held = run(number, hold)
            for other in chosen:
                other.take(held, is_own=other is race)
            if held.recorded.received is not None:
                return


def time_limit_s(recorded: RecordedRun, hold: Hold, timeout_s: float | None) -> float:
    """How many seconds a run with a delay may take.

    It takes as long as the recorded run and the delays, unless the race makes it hang.
    """
    # In each process both threads of the pair may be delayed, one after the other.
    delays_s = 2 * hold.limit_s * max(1, len(recorded.processes))
    if timeout_s is not None:
        return timeout_s + delays_s
    return _LEAST_S + _TIMES_AS_LONG * recorded.duration_s + delays_s


_MAIN = "__main__:"


def can_fire(hazard: Hazard, processes: Sequence[RecordedProcess]) -> bool:
    """Whether a shim sees the import of the module that starts the thread.

    It does if importlib's own loaders of files have loaded it after the start of that process, or of
    the one that it was forked from, and for the module of `python -m`. Others are loaded before any
    shim, are no import at all (`__mp_main__`), or come from a finder in front of it (pytest's).
    """
    started_at = hazard.first.thread_started_at or hazard.second.thread_started_at
    if started_at is None:
        return False
    name = started_at.module
    line = list(_with_ancestors(hazard.pid, processes))
    if name.startswith(_MAIN):
        return any(_runs_module(process.argv, name.removeprefix(_MAIN)) for process in line)
    return any(name not in process.loaders and process.count_loaded(name) > 0 for process in line)


def _with_ancestors(pid: int, processes: Sequence[RecordedProcess]) -> Iterator[RecordedProcess]:
    """The processes of `pid`, which may have several interpreters, and those it was forked from."""
    visited: set[int] = set()
    while pid not in visited:
        visited.add(pid)
        own = [process for process in processes if process.pid == pid]
        yield from own
        for process in own:
            if process.forked:
                pid = process.parent_pid


def _runs_module(argv: Sequence[str], name: str) -> bool:
    """Whether `argv` begins with `-m` for `name` or its package; before Python 3.10 with `-m` alone."""
    if argv[:1] == ("-m",):
        return True
    is_value = False
    for index, word in enumerate(argv[1:], start=1):
        if is_value:
            is_value = False
        elif not word.startswith("-") or word == "-c":
            return False
        elif word.startswith("-") and not word.startswith("--") and "m" in word:
            value = word.partition("m")[2] or "".join(argv[index + 1 : index + 2])
            return value in {name, name.removesuffix(".__main__")}
        else:
            is_value = word in {"-W", "-X"}
    return False


def judge_rule(
    race: Race, rule: PreloadRule, runs: Sequence[HeldRun], recorded: RecordedRun
) -> RuleStanding:
    """What `runs` with the rule show; `recorded` is the run without it."""
    ends = [run.recorded for run in runs]
    if not runs or any(end.received is not None or end.timed_out for end in ends):
        return RuleStanding.UNTRIED
    won = all(_wins(race, rule, run, recorded) for run in runs)
    return RuleStanding.WON if won else RuleStanding.LOST


def _wins(race: Race, rule: PreloadRule, held: HeldRun, recorded: RecordedRun) -> bool:
    processes = held.recorded.processes
    for preload in rule.preloads:
        # The trailing space: the attributes follow, or the time.
        if f"{rule.trigger}: preloaded {preload.module} " not in held.preloaded:
            return False
    for hazard in race.hazards:
        if did_harm(hazard, processes) or was_handed_out(hazard, processes):
            return False
    # The delay is used up by the preload: a program that drops the module imports it once more.
    again = any(each.count_loaded(name) > 1 for each in processes for name in race.worst.modules)
    if held.newly_failed or again:
        return False
    return held.recorded.exit_code == 0 or (held.ended_as_recorded and not recorded.command_failed)


class Investigation(Struct, frozen=True, kw_only=True):
    """All that was gathered.

    races: the worst first. runs: those with a delay, in their order. interpreters: for each executable, whether it is exposed to the race
    of self-replacing modules; None if it did not answer. isolated: why the command's own Python does
    not record. confirming: runs with a delay were requested. is_whole: False if a process requested
    more modules than are compared, so that there may be more hazards. rules: what is known of each
    preload rule, by its text.
    """

    recorded: RecordedRun
    races: tuple[Race, ...] = ()
    runs: tuple[HeldRun, ...] = ()
    interpreters: Mapping[str, bool | None] = {}
    isolated: str | None = None
    confirming: bool = False
    is_whole: bool = True
    rules: Mapping[str, RuleStanding] = {}

    def count(self, standing: Standing) -> int:
        """How many races have this standing."""
        return sum(race.standing is standing for race in self.races)

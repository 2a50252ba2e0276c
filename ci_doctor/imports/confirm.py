# SPDX-License-Identifier: Apache-2.0
"""Pure. Runs with delays: which ones would make a hazard happen, and what they show."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.imports.crossings import Hold, badness
from ci_doctor.imports.hazards import harms, kind_of, was_handed_out
from ci_doctor.imports.trace import HeldImport, RecordedProcess, RecordedRun
from ci_doctor.model.facts.import_race import Closeness, Hazard, RuleStanding, Standing
from ci_doctor.preload.preload_rule import PreloadRule


def fired(hazard: Hazard, processes: Iterable[RecordedProcess]) -> bool:
    """Whether the events of a run show that the hazard did harm."""
    return any(True for _ in harms(hazard, processes))


class RaceCandidate(Struct, frozen=True, kw_only=True):
    """Hazards that the same delays decide, the worst first.

    They have the same modules at several places, or in several processes.
    """

    hazards: tuple[Hazard, ...]

    @property
    def worst(self) -> Hazard:
        """The hazard that stands for all."""
        return self.hazards[0]

    @property
    def has_fired(self) -> bool:
        """Whether one of them did harm without any delay."""
        return self.worst.closeness is Closeness.FIRED

    @property
    def was_handed_out(self) -> bool:
        """Whether one of them happened without any delay, with or without harm."""
        return self.worst.closeness in {Closeness.FIRED, Closeness.HANDED_OUT}


def grouped(hazards: Iterable[Hazard]) -> tuple[RaceCandidate, ...]:
    """The hazards of all processes by what decides them, the worst first."""
    groups: dict[tuple[object, ...], list[Hazard]] = {}
    for hazard in sorted(hazards, key=badness):
        delays = [(hold.mode, hold.x, hold.y) for hold in kind_of(hazard).delays(hazard)]
        # Without the limits: how long to wait differs from place to place.
        groups.setdefault((hazard.kind, hazard.modules, *delays), []).append(hazard)
    return tuple(RaceCandidate(hazards=tuple(group)) for group in groups.values())


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
        processes = run.recorded.processes
        hazards = self.candidate.hazards
        is_handed_out = any(was_handed_out(hazard, processes) for hazard in hazards)
        # What was handed out may do harm in a way that no single read shows.
        went_wrong = bool(run.newly_failed) or not run.ended_as_recorded
        has_fired = (is_handed_out and went_wrong) or any(
            fired(hazard, processes) for hazard in hazards
        )
        return Confirmation(
            candidate=self.candidate,
            # A delay for another candidate shows only what fired, never that nothing can.
            runs=(*self.runs, run) if is_own else self.runs,
            fired_in=self.fired_in or (run if has_fired else None),
            handed_out_in=(*self.handed_out_in, run) if is_handed_out else self.handed_out_in,
        )

    def needs(self, hold: Hold) -> bool:
        """Whether a run with the delay `hold` can still show something new."""
        if self.fired_in is not None:
            return False
        # A thread was handed the module at the very place of the delay: no run shows another one.
        return all(run.hold != hold for run in self.handed_out_in)


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
        # Each delay once before any of them a second time: the first that works ends the search.
        for hold in kind_of(candidate.worst).delays(candidate.worst) * repeats:
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


def time_limit_s(recorded: RecordedRun, hold: Hold, timeout_s: float | None) -> float:
    """How many seconds a run with a delay may take.

    It takes as long as the recorded run and the delays, unless the race makes it hang.
    """
    # In each process both threads of the pair may be delayed, one after the other.
    delays_s = 2 * hold.limit_s * max(1, len(recorded.processes))
    if timeout_s is not None:
        return timeout_s + delays_s
    return _LEAST_S + _TIMES_AS_LONG * recorded.duration_s + delays_s


class JudgedHazard(Struct, frozen=True, kw_only=True):
    """A hazard, at all its places, and what is known of it.

    confirmation: None if no run was made for it.
    """

    candidate: RaceCandidate
    standing: Standing
    confirmation: Confirmation | None = None

    @property
    def hold(self) -> Hold | None:
        """The delay that made it fire."""
        fired_in = None if self.confirmation is None else self.confirmation.fired_in
        return None if fired_in is None else fired_in.hold


def judge(
    candidates: Sequence[RaceCandidate],
    confirmations: Sequence[Confirmation],
    *,
    confirming: bool,
    command_failed: bool = False,
) -> tuple[JudgedHazard, ...]:
    """What is known of each of `candidates`; `confirmations` are of some of them.

    command_failed: of the recorded run. What was handed out in it may be the reason, so it counts
    as harm.
    """
    judged = []
    for candidate in candidates:
        own = [each for each in confirmations if each.candidate is candidate]
        confirmation = own[0] if own else None
        if candidate.has_fired or (command_failed and candidate.was_handed_out):
            standing = Standing.FIRED
        else:
            standing = _standing(candidate, confirmation, confirming=confirming)
        judged.append(
            JudgedHazard(candidate=candidate, standing=standing, confirmation=confirmation)
        )
    return tuple(judged)


def _standing(
    candidate: RaceCandidate, confirmation: Confirmation | None, *, confirming: bool
) -> Standing:
    if confirmation is None:
        # Beyond `candidates`, or a signal came before its turn: runs were wanted, and not made.
        return Standing.OPEN if confirming else Standing.POSSIBLE
    if confirmation.fired_in is not None:
        return Standing.CONFIRMED
    if not confirmation.is_settled:
        return Standing.OPEN
    if candidate.was_handed_out or confirmation.handed_out_in:
        return Standing.HARMLESS
    return Standing.SAFE


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


def holds_to_beat(judged: JudgedHazard) -> tuple[Hold, ...]:
    """The delays under which a rule must win; none if the race has not fired."""
    if judged.hold is not None:
        return (judged.hold,)
    worst = judged.candidate.worst
    return kind_of(worst).delays(worst) if judged.candidate.has_fired else ()


def judge_rule(
    candidate: RaceCandidate, rule: PreloadRule, runs: Sequence[HeldRun], recorded: RecordedRun
) -> RuleStanding:
    """What `runs` with the rule show; `recorded` is the run without it."""
    ends = [run.recorded for run in runs]
    if not runs or any(end.received is not None or end.timed_out for end in ends):
        return RuleStanding.UNTRIED
    won = all(_wins(candidate, rule, run, recorded) for run in runs)
    return RuleStanding.WON if won else RuleStanding.LOST


def _wins(
    candidate: RaceCandidate, rule: PreloadRule, held: HeldRun, recorded: RecordedRun
) -> bool:
    processes = held.recorded.processes
    for preload in rule.preloads:
        # The trailing space: the attributes follow, or the time.
        if f"{rule.trigger}: preloaded {preload.module} " not in held.preloaded:
            return False
    for hazard in candidate.hazards:
        if fired(hazard, processes) or was_handed_out(hazard, processes):
            return False
    # The delay is used up by the preload: a program that drops the module imports it once more.
    again = any(
        each.count_loaded(name) > 1 for each in processes for name in candidate.worst.modules
    )
    if held.newly_failed or again:
        return False
    return held.recorded.exit_code == 0 or (held.ended_as_recorded and not recorded.command_failed)


class Investigation(Struct, frozen=True, kw_only=True):
    """All that was gathered.

    judged: the hazards, the worst first. runs: those with a delay, in their order. spared: hazards
    that an immune interpreter does not have. interpreters: for each executable, whether it is
    exposed to the race of self-replacing modules; None if it did not answer. isolated: why the
    command's own Python does not record. confirming: runs with a delay were requested. is_whole:
    False if a process requested more modules than are compared, so that there may be more hazards.
    rules: what is known of each preload rule, by its text.
    """

    recorded: RecordedRun
    judged: tuple[JudgedHazard, ...] = ()
    runs: tuple[HeldRun, ...] = ()
    spared: tuple[Hazard, ...] = ()
    interpreters: Mapping[str, bool | None] = {}
    isolated: str | None = None
    confirming: bool = False
    is_whole: bool = True
    rules: Mapping[str, RuleStanding] = {}

    def having(self, *standings: Standing) -> tuple[JudgedHazard, ...]:
        """The hazards with one of these standings."""
        chosen = [judged for judged in self.judged if judged.standing in standings]
        return tuple(chosen)

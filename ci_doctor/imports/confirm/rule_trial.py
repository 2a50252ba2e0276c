# SPDX-License-Identifier: Apache-2.0
"""Whether a preload rule can fire in a recorded run, and whether it was seen to win. Pure."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.imports.analyse.harm import was_handed_out
from ci_doctor.imports.analyse.hazard import Hazard
from ci_doctor.imports.confirm.delays import Hold, RaceCandidate, fired, holds
from ci_doctor.imports.confirm.run import Confirmation, HeldRun
from ci_doctor.imports.record.events import End
from ci_doctor.imports.record.recorded import RecordedProcess, RecordedRun
from ci_doctor.preload.preload_rule import PreloadRule

_MAIN = "__main__:"


class RuleStanding(StrEnum):
    """What is known of a preload rule.

    WON: under the delay that makes the race fire, it did not fire with the rule. LOST: it fired, or
    the rule did not preload. UNTRIED: no such run was made. IMPOSSIBLE: no import that a shim sees
    loads the trigger.
    """

    WON = "won"
    LOST = "lost"
    UNTRIED = "not tried"
    IMPOSSIBLE = "cannot fire"


class RuleRun(Struct, frozen=True, kw_only=True):
    """A run with the rule and a delay; `trace` is what the shim wrote."""

    held: HeldRun
    trace: str


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
    return any(name not in process.loaders and _loads(process, name) > 0 for process in line)


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


def _loads(process: RecordedProcess, name: str) -> int:
    """How often the process has executed the module."""
    count = 0
    for event in process.events:
        if isinstance(event, End) and event.name == name and event.status == "loaded":
            count += 1
    return count


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


def holds_to_beat(candidate: RaceCandidate, confirmation: Confirmation | None) -> tuple[Hold, ...]:
    """The delays under which a rule for `candidate` must win; none if the race has not fired."""
    if confirmation is not None and confirmation.fired_in is not None:
        return (confirmation.fired_in.hold,)
    return holds(candidate.worst) if candidate.has_fired else ()


def judge_rule(
    candidate: RaceCandidate, rule: PreloadRule, runs: Sequence[RuleRun], recorded: RecordedRun
) -> RuleStanding:
    """What `runs` with the rule show; `recorded` is the run without it."""
    if not runs or any(_is_cut_off(run.held.recorded) for run in runs):
        return RuleStanding.UNTRIED
    won = all(_wins(candidate, rule, run, recorded) for run in runs)
    return RuleStanding.WON if won else RuleStanding.LOST


def _is_cut_off(run: RecordedRun) -> bool:
    return run.received is not None or run.timed_out


def _wins(candidate: RaceCandidate, rule: PreloadRule, run: RuleRun, recorded: RecordedRun) -> bool:
    held = run.held
    processes = held.recorded.processes
    for preload in rule.preloads:
        # The trailing space: the attributes follow, or the time.
        if f"{rule.trigger}: preloaded {preload.module} " not in run.trace:
            return False
    for hazard in candidate.hazards:
        if fired(hazard, processes) or was_handed_out(hazard, processes):
            return False
    # The delay is used up by the preload: a program that drops the module imports it once more.
    again = any(_loads(each, name) > 1 for each in processes for name in candidate.worst.modules)
    if held.newly_failed or again:
        return False
    return held.recorded.exit_code == 0 or (held.ended_as_recorded and not recorded.command_failed)

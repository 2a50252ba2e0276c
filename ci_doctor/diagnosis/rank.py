# SPDX-License-Identifier: Apache-2.0
"""Pure. Orders candidates: the earliest strong cause first, symptoms after all others; and how sure the first is."""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from ci_doctor.decodable import decodable
from ci_doctor.diagnosis.lines import CleanLine
from ci_doctor.diagnosis.log_rules import LogRule, Role
from ci_doctor.diagnosis.log_text import TextLine
from ci_doctor.diagnosis.tracebacks import TOLERATED_LEVELS, ExceptionStanding


class Sign(StrEnum):
    """Why a line is unlikely to be the end of its script.

    next-step: the CI system shows another command below it. next-command: the shell's own trace
    does, which a script may print after a failure too. other-work: another program begins below
    it, or ends well. tolerated: its script says that it tries again, or does without.
    nothing-to-remove: a clean-up did not find what it removes. clean-up: its own command is a
    clean-up, or may fail.
    """

    NEXT_STEP = "next-step"
    NEXT_COMMAND = "next-command"
    OTHER_WORK = "other-work"
    TOLERATED = "tolerated"
    NOTHING_TO_REMOVE = "nothing-to-remove"
    CLEAN_UP = "clean-up"


class Candidate(Struct, frozen=True, kw_only=True):
    """A line named by a rule.

    log: the index of its log. in_failed_step: it stands in a step of the job that ended with a
    failure; None if no step failed. in_passed_step: it stands in a step that ended well, or in a
    job that did. ends_traceback: it is the exception of a traceback that is not explained by
    another one of its chain, and that its program did not tolerate. standing: the same in full,
    None for lines that are no exceptions. repeats: how many lines its rule matches in this log.
    at_s: seconds of its clock, on one scale for all logs; None if nothing tells. in_passed_run:
    it stands in a run of tests that passed. log_ended_well: as by `ending.ended_well`.
    lines_after: how many lines its log has after it. log_sounds_well: the last lines of its log
    hold words of success and none of failure. quiet_lines: how many lines at the end of its log,
    and after it, speak of no failure. last_run_failed: as by `ending.last_run_failed`.
    lines_in_step: how many lines follow it in its step, or in its log without a step. signs: that
    its script went on, as far as `went_on.examined` has looked.
    in_good_run: whether a line like it stands in the log of a good run; None without such a log.
    points, reasons: what `rank` gives it, and why, in words.
    """

    log: int
    line: TextLine
    clean: CleanLine
    rule: LogRule
    fields: dict[str, str]
    in_failed_step: bool | None = None
    in_passed_step: bool = False
    ends_traceback: bool = False
    standing: ExceptionStanding | None = None
    repeats: int = 1
    at_s: float | None = None
    in_passed_run: bool = False
    log_ended_well: bool = False
    lines_after: int = 0
    log_sounds_well: bool = False
    quiet_lines: int = 0
    last_run_failed: bool = False
    in_good_run: bool | None = None
    lines_in_step: int = 0
    signs: frozenset[Sign] = frozenset()
    points: int = 0
    reasons: tuple[str, ...] = ()


# Points for where a candidate stands.
_IN_FAILED_STEP = 25
_OUTSIDE_FAILED_STEP = -40
_IN_PASSED_RUN = -45
# A step that ends well did not fail by what stands in it, however bad that looks.
_IN_PASSED_STEP = -80
_IN_GOOD_RUN = -70
# A program that logs a line as a warning goes on.
_TOLERATED_LEVEL = -30
# Points of an exception at the end of a traceback.
_STANDING = {
    ExceptionStanding.FATAL: 20,
    ExceptionStanding.CAUSE: 15,
    ExceptionStanding.ANSWERED: 0,
    ExceptionStanding.CONSEQUENCE: -45,
    ExceptionStanding.TOLERATED: -40,
}
# Candidates that differ by less are equally strong: what follows from a cause is often said in
# stronger words than the cause itself.
_NEARLY = 10

# What a script went on from did not end the job. A sign may be wrong: a diff looks like a trace.
_SIGNS = {
    Sign.NEXT_STEP: -80,
    Sign.NEXT_COMMAND: -25,
    Sign.OTHER_WORK: -10,
    Sign.TOLERATED: -20,
    Sign.NOTHING_TO_REMOVE: -30,
    Sign.CLEAN_UP: -15,
}
# A command that lacks a file, a package or the network says so and ends. If more follows its last
# words, it did without, or tried again. A script may go on, and its step fail in spite of that.
_WENT_ON = -30
_MUCH_LINES = 15
_MUCH_LINES_OF_LOG = 300
_NEEDS = frozenset({"infra", "packages", "import", "scm-version", "lint"})


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates with their points, most points first; those nearly as strong as the first come by time.

    Within a log the order of its lines is the order of time. Logs come in the order of their first
    such line, and logs without times after those with.
    """
    listed = list(candidates)
    last = _last_of_rules(listed)
    ranked = [_ranked(each, last[_words(each)]) for each in listed]
    near = nearly_strongest(ranked)
    begins = _begins(near)
    near.sort(key=lambda each: (begins[each.log], *_place(each)))
    chosen = {id(each) for each in near}
    others = [each for each in ranked if id(each) not in chosen]
    others.sort(key=lambda each: (-each.points, *_place(each)))
    return [*near, *others]


def nearly_strongest(ranked: Iterable[Candidate]) -> list[Candidate]:
    """Those of `ranked` that are as strong as the strongest, or nearly."""
    listed = list(ranked)
    if not listed:
        return []
    strongest = max(each.points for each in listed)
    return [each for each in listed if each.points >= strongest - _NEARLY]


def _begins(near: Iterable[Candidate]) -> dict[int, float]:
    """From each log to the earliest time of its candidates; infinity if none has a time."""
    begins: dict[int, float] = {}
    for candidate in near:
        at_s = math.inf if candidate.at_s is None else candidate.at_s
        begins[candidate.log] = min(at_s, begins.get(candidate.log, math.inf))
    return begins


def _place(candidate: Candidate) -> tuple[int, int]:
    return candidate.log, candidate.line.offset


def _last_of_rules(candidates: Iterable[Candidate]) -> dict[tuple[int, int, str], Candidate]:
    """From each step and rule to the last candidate there: a linter says the same many times."""
    return {_words(each): each for each in sorted(candidates, key=lambda each: each.line.offset)}


def _words(candidate: Candidate) -> tuple[int, int, str]:
    """The log, the last line of the step, and the rule of `candidate`."""
    return candidate.log, candidate.line.number + candidate.lines_in_step, candidate.rule.id


def _ranked(candidate: Candidate, last: Candidate) -> Candidate:
    points = candidate.rule.points
    reasons = [f"rule {candidate.rule.id}"]
    placed, where = _step_points(candidate)
    points += placed
    reasons.extend(where)
    points += _points_of_program(candidate)
    went_on = _points_of_what_follows(candidate, last)
    points += went_on
    if went_on:
        reasons.append("its script went on")
    if candidate.ends_traceback:
        reasons.append("ends a traceback")
    if candidate.in_passed_run:
        points += _IN_PASSED_RUN
    if candidate.in_good_run:
        points += _IN_GOOD_RUN
    elif candidate.in_good_run is False:
        reasons.append("not in the good run")
    return structs.replace(candidate, points=points, reasons=tuple(reasons))


def _points_of_program(candidate: Candidate) -> int:
    """What its own program shows about it: by a traceback, or by the level of a logger."""
    if candidate.standing is not None:
        return _STANDING[candidate.standing]
    if candidate.clean.level in TOLERATED_LEVELS:
        return _TOLERATED_LEVEL
    return 0


def _step_points(candidate: Candidate) -> tuple[int, list[str]]:
    """Points for the step in which it stands, and what to say of that."""
    if candidate.in_failed_step is True:
        return _IN_FAILED_STEP, ["in a step that failed"]
    if candidate.in_passed_step:
        return _IN_PASSED_STEP, ["in a step that ended well"]
    if candidate.in_failed_step is False:
        return _OUTSIDE_FAILED_STEP, []
    return 0, []


def _points_of_what_follows(candidate: Candidate, last: Candidate) -> int:
    """Points for what comes after it; `last` is the last one of its rule in its step."""
    signs = candidate.signs
    is_need = candidate.rule.family in _NEEDS
    # Below a test that failed stand others, which are skipped, or try again by design.
    if candidate.rule.role is Role.FAILURE and not is_need:
        signs -= {Sign.TOLERATED}
    points = sum(_SIGNS[sign] for sign in signs)
    if is_need and (last.lines_in_step > _MUCH_LINES or last.lines_after > _MUCH_LINES_OF_LOG):
        points += _WENT_ON
    return points


class Calibration(Struct, frozen=True, kw_only=True):
    """The content of `calibration.json`.

    least: below this confidence nothing is called a cause. coefficients: by feature.
    """

    least: float
    coefficients: dict[str, float]


@cache
def calibration() -> Calibration:
    """The calibration that ships with ci-doctor."""
    file = Path(__file__).with_name("calibration.json")
    return msgspec.json.decode(file.read_bytes(), type=decodable(Calibration))


# Candidates within so many lines of each other point at the same place.
_SAME_PLACE_LINES = 20
_MANY_LINES_AFTER = 100
_MANY_RIVALS = 5
_MANY_QUIET_LINES = 10
# Signs by which a script or a clean-up itself says that a failure does not matter.
_GOT_OVER = frozenset({Sign.TOLERATED, Sign.NOTHING_TO_REMOVE, Sign.CLEAN_UP})


def features(ranked: Sequence[Candidate]) -> dict[str, float]:
    """What the confidence rests on, by name; `ranked` is not empty.

    points: of the first candidate, divided by 100. lead: how many more it has than the best one at
    another place, divided by 100, at most 1. lines_after: how many lines follow, divided by 100, at
    most 1. lines_after_unmarked: the same if no step is marked as failed, else 0. lines_in_step: the
    same to the end of its step. rivals: how many candidates at other places are nearly as strong,
    divided by 5, at most 1. quiet_end: how many lines at the end of a log without a failed step speak
    of no failure, divided by 10, at most 1. The others are 0 or 1.
    """
    candidate = ranked[0]
    step = candidate.in_failed_step
    return {
        "constant": 1.0,
        "points": candidate.points / 100,
        "lead": _lead(ranked),
        "rivals": _rivals(ranked),
        "cause": float(candidate.rule.role is Role.CAUSE),
        "failure": float(candidate.rule.role is Role.FAILURE),
        "symptom": float(candidate.rule.role is Role.SYMPTOM),
        "ends_traceback": float(candidate.ends_traceback),
        "in_failed_step": float(step is True),
        "no_step_failed": float(step is None),
        "repeated": float(candidate.repeats > 10),
        "weak_unmarked": float(_is_weak(candidate) and step is None),
        "lines_after": min(1.0, candidate.lines_after / _MANY_LINES_AFTER),
        "lines_after_unmarked": _unmarked(candidate),
        "lines_in_step": min(1.0, candidate.lines_in_step / _MANY_LINES_AFTER),
        "next_step": float(Sign.NEXT_STEP in candidate.signs),
        "next_command": float(Sign.NEXT_COMMAND in candidate.signs),
        "other_work": float(Sign.OTHER_WORK in candidate.signs),
        "got_over": float(not candidate.signs.isdisjoint(_GOT_OVER)),
        "in_passed_run": float(candidate.in_passed_run),
        "log_ended_well": float(candidate.log_ended_well),
        "last_run_failed": float(candidate.last_run_failed),
        "quiet_end": _quiet_end(candidate),
        "last_line_quiet": float(_quiet_end(candidate) > 0),
        "log_sounds_well": float(candidate.log_sounds_well),
        "tolerated": float(candidate.standing is ExceptionStanding.TOLERATED),
    }


def _is_weak(candidate: Candidate) -> bool:
    """Whether the line only speaks of an error, in words that any program may use."""
    return candidate.rule.role is Role.ERROR and not candidate.ends_traceback


def _unmarked(candidate: Candidate) -> float:
    """The lines after a candidate of a log in which no step is marked as failed."""
    # A program that went on and on after an error has recovered from it.
    if candidate.in_failed_step is not None:
        return 0.0
    return min(1.0, candidate.lines_after / _MANY_LINES_AFTER)


def _quiet_end(candidate: Candidate) -> float:
    """The lines without a failure at the end of a log in which no step is marked as failed."""
    if candidate.in_failed_step is not None:
        return 0.0
    return min(1.0, candidate.quiet_lines / _MANY_QUIET_LINES)


def _lead(ranked: Sequence[Candidate]) -> float:
    first = ranked[0]
    for other in ranked[1:]:
        if not _is_same_place(first, other):
            return min(1.0, (first.points - other.points) / 100)
    return 1.0


def _rivals(ranked: Sequence[Candidate]) -> float:
    """How many others than the first are nearly as strong, and stand elsewhere."""
    near = nearly_strongest(ranked)
    rivals = sum(not _is_same_place(ranked[0], other) for other in near)
    return min(1.0, rivals / _MANY_RIVALS)


def _is_same_place(one: Candidate, other: Candidate) -> bool:
    if one.log != other.log:
        return False
    distance = abs(one.line.number - other.line.number)
    return distance <= _SAME_PLACE_LINES


def probability(values: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    """The logistic function of the sum of `values` by their `coefficients`, 0 to 1."""
    total = 0.0
    for name, value in values.items():
        total += value * coefficients.get(name, 0.0)
    return 1 / (1 + math.exp(-total))

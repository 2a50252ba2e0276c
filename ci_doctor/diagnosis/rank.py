# SPDX-License-Identifier: Apache-2.0
"""Pure. Orders candidates: the earliest strong cause first, symptoms after all others."""

import math
from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.standing import TOLERATED_LEVELS, ExceptionStanding
from ci_doctor.diagnosis.went_on import Sign

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


class Ranked(Struct, frozen=True, kw_only=True):
    """A candidate with its points and the reasons for them, in words."""

    candidate: Candidate
    points: int
    reasons: tuple[str, ...]


def rank(candidates: Iterable[Candidate]) -> list[Ranked]:
    """The candidates, most points first; those nearly as strong as the first come by time.

    Within a log the order of its lines is the order of time. Logs come in the order of their first
    such line, and logs without times after those with.
    """
    listed = list(candidates)
    last = _last_of_rules(listed)
    ranked = [_ranked(each, last[_words(each)]) for each in listed]
    near = nearly_strongest(ranked)
    begins = _begins(near)
    near.sort(key=lambda each: (begins[each.candidate.log], *_place(each)))
    chosen = {id(each) for each in near}
    others = [each for each in ranked if id(each) not in chosen]
    others.sort(key=lambda each: (-each.points, *_place(each)))
    return [*near, *others]


def nearly_strongest(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Those of `ranked` that are as strong as the strongest, or nearly."""
    listed = list(ranked)
    if not listed:
        return []
    strongest = max(each.points for each in listed)
    return [each for each in listed if each.points >= strongest - _NEARLY]


def _begins(near: Iterable[Ranked]) -> dict[int, float]:
    """From each log to the earliest time of its candidates; infinity if none has a time."""
    begins: dict[int, float] = {}
    for ranked in near:
        candidate = ranked.candidate
        at_s = math.inf if candidate.at_s is None else candidate.at_s
        begins[candidate.log] = min(at_s, begins.get(candidate.log, math.inf))
    return begins


def _place(ranked: Ranked) -> tuple[int, int]:
    return ranked.candidate.log, ranked.candidate.line.offset


def _last_of_rules(candidates: Iterable[Candidate]) -> dict[tuple[int, int, str], Candidate]:
    """From each step and rule to the last candidate there: a linter says the same many times."""
    return {_words(each): each for each in sorted(candidates, key=lambda each: each.line.offset)}


def _words(candidate: Candidate) -> tuple[int, int, str]:
    """The log, the last line of the step, and the rule of `candidate`."""
    return candidate.log, candidate.line.number + candidate.lines_in_step, candidate.rule.id


def _ranked(candidate: Candidate, last: Candidate) -> Ranked:
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
    return Ranked(candidate=candidate, points=points, reasons=tuple(reasons))


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

# SPDX-License-Identifier: Apache-2.0
"""Pure. How probable it is that the candidate named first is the cause.

A logistic regression on a few features of the ranking. `benchmarks/diagnose/evaluate.py` fits its
coefficients on labelled logs of failed runs and on logs of passing ones, and writes them to
`calibration.json`.
"""

import math
from collections.abc import Mapping, Sequence

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.rank import Ranked, nearly_strongest
from ci_doctor.diagnosis.standing import ExceptionStanding
from ci_doctor.diagnosis.went_on import Sign

# Candidates within so many lines of each other point at the same place.
_SAME_PLACE_LINES = 20
_MANY_LINES_AFTER = 100
_MANY_RIVALS = 5
_MANY_QUIET_LINES = 10
# Signs by which a script or a clean-up itself says that a failure does not matter.
_GOT_OVER = frozenset({Sign.TOLERATED, Sign.NOTHING_TO_REMOVE, Sign.CLEAN_UP})


def features(ranked: Sequence[Ranked]) -> dict[str, float]:
    """What the confidence rests on, by name; `ranked` is not empty.

    points: of the first candidate, divided by 100. lead: how many more it has than the best one at
    another place, divided by 100, at most 1. lines_after: how many lines follow, divided by 100, at
    most 1. lines_after_unmarked: the same if no step is marked as failed, else 0. lines_in_step: the
    same to the end of its step. rivals: how many candidates at other places are nearly as strong,
    divided by 5, at most 1. quiet_end: how many lines at the end of a log without a failed step speak
    of no failure, divided by 10, at most 1. The others are 0 or 1.
    """
    first = ranked[0]
    candidate = first.candidate
    step = candidate.in_failed_step
    return {
        "constant": 1.0,
        "points": first.points / 100,
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


def _lead(ranked: Sequence[Ranked]) -> float:
    first = ranked[0]
    for other in ranked[1:]:
        if not _is_same_place(first, other):
            return min(1.0, (first.points - other.points) / 100)
    return 1.0


def _rivals(ranked: Sequence[Ranked]) -> float:
    """How many others than the first are nearly as strong, and stand elsewhere."""
    near = nearly_strongest(ranked)
    rivals = sum(not _is_same_place(ranked[0], other) for other in near)
    return min(1.0, rivals / _MANY_RIVALS)


def _is_same_place(one: Ranked, other: Ranked) -> bool:
    if one.candidate.log != other.candidate.log:
        return False
    distance = abs(one.candidate.line.number - other.candidate.line.number)
    return distance <= _SAME_PLACE_LINES


def probability(values: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    """The logistic function of the sum of `values` by their `coefficients`, 0 to 1."""
    total = 0.0
    for name, value in values.items():
        total += value * coefficients.get(name, 0.0)
    return 1 / (1 + math.exp(-total))

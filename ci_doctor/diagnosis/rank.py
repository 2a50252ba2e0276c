# SPDX-License-Identifier: Apache-2.0
"""Pure. Orders candidates: the earliest strong cause first, symptoms after all others."""

from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.diagnosis.candidate import Candidate

# Points for where a candidate stands.
_IN_FAILED_STEP = 25
_OUTSIDE_FAILED_STEP = -15
_ENDS_TRACEBACK = 15


class Ranked(Struct, frozen=True, kw_only=True):
    """A candidate with its points and the reasons for them, in words."""

    candidate: Candidate
    points: int
    reasons: tuple[str, ...]


def rank(candidates: Iterable[Candidate]) -> list[Ranked]:
    """The candidates, most points first; among equals the earliest."""
    ranked = [_ranked(each) for each in candidates]
    return sorted(ranked, key=_order)


def _order(ranked: Ranked) -> tuple[int, float, int, int]:
    candidate = ranked.candidate
    at_s = float("inf") if candidate.at_s is None else candidate.at_s
    return (-ranked.points, at_s, candidate.log, candidate.line.offset)


def _ranked(candidate: Candidate) -> Ranked:
    points = candidate.rule.points
    reasons = [f"rule {candidate.rule.id}"]
    if candidate.in_failed_step is True:
        points += _IN_FAILED_STEP
        reasons.append("in a step that failed")
    elif candidate.in_failed_step is False:
        points += _OUTSIDE_FAILED_STEP
    if candidate.ends_traceback:
        points += _ENDS_TRACEBACK
        reasons.append("ends a traceback")
    return Ranked(candidate=candidate, points=points, reasons=tuple(reasons))

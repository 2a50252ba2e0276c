# SPDX-License-Identifier: Apache-2.0
"""How hard two sides differ at one token: whether rounding is enough to flip it. Pure."""

from enum import StrEnum
from typing import NamedTuple

from ci_doctor.correctness.report.tokens import Step
from ci_doctor.load.choices import ulp_distance

# Two tokens whose log-probabilities are closer than this (in nat) can change places by rounding
# alone: in bfloat16, with 8 bits of precision, a logit of 16 to 32 moves in steps of 0.125 (IEEE
# 754 arithmetic, not a measurement).
NEAR_NAT = 0.1


class Hardness(StrEnum):
    """What kind of difference it is; the hardest first."""

    # The other side's token is outside the most probable ones, or NEAR_NAT or more away.
    HARD = "hard"
    # One answer is the beginning of the other, or they stopped for different reasons.
    LENGTH = "length"
    # No log-probabilities at this token.
    UNKNOWN = "unknown"
    # One side has no answer, or not this choice.
    MISSING = "missing"
    # The same words; only log-probabilities differ.
    NUMBERS = "numbers"
    # Each side's token is among the other's most probable ones, less than NEAR_NAT away.
    NEAR_TIE = "near-tie"


class _Gap(NamedTuple):
    """The distance of two tokens in nat; `outside`: one is not listed, so it is at least so far."""

    nat: float
    outside: bool

    @property
    def hard(self) -> bool:
        """Whether rounding cannot explain it."""
        return self.outside or self.nat >= NEAR_NAT


def compare_steps(left: Step, right: Step) -> tuple[Hardness, float | None]:
    """How hard two different tokens at one step differ, and how far apart they are in nat."""
    if left.name == right.name:
        # Ids that differ below one text: the log-probabilities are keyed by text, and cannot tell
        # the two apart.
        return Hardness.UNKNOWN, None
    ours = _gap(left, right.name)
    theirs = _gap(right, left.name)
    if ours is None or theirs is None:
        return _one_sided(ours or theirs)
    widest = max(ours.nat, theirs.nat)
    if ours.hard or theirs.hard:
        return Hardness.HARD, widest
    return Hardness.NEAR_TIE, widest


def _one_sided(gap: _Gap | None) -> tuple[Hardness, float | None]:
    # One side alone can prove that a difference is hard, but not that it is a near-tie.
    if gap is not None and gap.hard:
        return Hardness.HARD, gap.nat
    return Hardness.UNKNOWN, None


def _gap(step: Step, other: object) -> _Gap | None:
    """How far the token named `other` is from the generated one; None if no other is listed."""
    alternatives = {each.name: each.logprob for each in step.top}
    own = step.logprob
    if own is None:
        own = alternatives.get(step.name)
    others = alternatives.keys() - {step.name}
    if own is None or not others:
        return None
    if other in alternatives:
        distance = abs(own - alternatives[other])
        return _Gap(distance, outside=False)
    # An unlisted token is at most as probable as the least probable listed one.
    least = min(alternatives.values())
    # A generated token below all listed ones (sampling) would give a negative distance.
    distance = max(0.0, own - least)
    return _Gap(distance, outside=True)


def ulp_between(left: Step, right: Step) -> int | None:
    """The distance of two log-probabilities in units in the last place of float32.

    None if one of them is not reported.
    """
    if left.logprob is None or right.logprob is None:
        return None
    return ulp_distance(left.logprob, right.logprob)

# SPDX-License-Identifier: Apache-2.0
"""How hard two sides differ at one token: whether rounding is enough to flip it. Pure."""

from enum import StrEnum

from ci_doctor.correctness.report.tokens import Step
from ci_doctor.load.float32 import ulp_distance

# Two tokens whose log-probabilities are closer than this (in nat) can change places by rounding alone: in bfloat16, with
# 8 bits of precision, a logit of 16 to 32 moves in steps of 0.125 (IEEE 754 arithmetic, not a measurement).
NEAR_NAT = 0.1


class Hardness(StrEnum):
    """What kind of difference it is."""

    HARD = (
        "hard"  # the other side's token is outside the most probable ones, or NEAR_NAT or more away
    )
    LENGTH = "length"  # one is the beginning of the other, or they stopped for different reasons
    UNKNOWN = "unknown"  # no log-probabilities there
    MISSING = "missing"  # one side has no answer, or not this choice
    NUMBERS = "numbers"  # the same words; only log-probabilities differ
    NEAR_TIE = "near-tie"  # each side's token is among the other's most probable ones, less than NEAR_NAT away


def compare_steps(left: Step, right: Step) -> tuple[Hardness, float | None]:
    """How hard two different tokens at one step differ, and how far apart they are in nat."""
    if left.name == right.name:
        return (
            Hardness.UNKNOWN,
            None,
        )  # ids that differ below one text: the log-probabilities cannot tell them apart
    gaps = [_gap(left, right.name), _gap(right, left.name)]
    known = [gap for gap in gaps if gap is not None]
    if any(outside or gap >= NEAR_NAT for gap, outside in known):
        return Hardness.HARD, max(gap for gap, _ in known)
    if len(known) < len(gaps):
        return Hardness.UNKNOWN, None
    return Hardness.NEAR_TIE, max(gap for gap, _ in known)


def _gap(said: Step, other: object) -> tuple[float, bool] | None:
    """How far the token named `other` is from what was said, and whether it is outside the list (then: at least so far).

    None where nothing but the token itself is listed.
    """
    alternatives = {each.name: each.logprob for each in said.top}
    own = said.logprob if said.logprob is not None else alternatives.get(said.name)
    if own is None or not set(alternatives) - {said.name}:
        return None
    if other in alternatives:
        return abs(own - alternatives[other]), False
    return max(0.0, own - min(alternatives.values())), True


def ulp_between(left: Step, right: Step) -> int | None:
    """How far two log-probabilities are apart, in units in the last place of float32; None where one is not told."""
    if left.logprob is None or right.logprob is None:
        return None
    return ulp_distance(left.logprob, right.logprob)

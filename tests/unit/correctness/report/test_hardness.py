# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.report.hardness import Hardness, compare_steps, ulp_between
from ci_doctor.correctness.report.tokens import Alternative, Step


def token(name: str, **top: float) -> Step:
    alternatives = tuple(Alternative(token=each, logprob=value) for each, value in top.items())
    return Step(token=name, logprob=top.get(name), top=alternatives)


@pytest.mark.parametrize(
    ("left", "right", "hardness", "gap"),
    [
        (token("x", x=-0.70, y=-0.75), token("y", y=-0.71, x=-0.72), Hardness.NEAR_TIE, 0.05),
        (token("x", x=-0.70, y=-0.85), token("y", y=-0.71, x=-0.72), Hardness.HARD, 0.15),
        # The other token is not listed: the last listed one is the least distance.
        (token("x", x=-0.70, w=-0.72), token("y", y=-0.71, x=-0.72), Hardness.HARD, 0.02),
        # One side alone proves a hard difference, and no near-tie.
        (token("x", x=-0.70), token("y", y=-0.10, x=-3.00), Hardness.HARD, 2.9),
        (token("x", x=-0.70), token("y", y=-0.71, x=-0.72), Hardness.UNKNOWN, None),
        (token("x"), token("y"), Hardness.UNKNOWN, None),
        (token("x", x=-0.7), token("x", x=-0.9), Hardness.UNKNOWN, None),
    ],
)
def test_how_hard_two_tokens_differ(
    left: Step, right: Step, hardness: Hardness, gap: float | None
) -> None:
    expected = None if gap is None else pytest.approx(gap)

    assert compare_steps(left, right) == (hardness, expected)


def test_the_distance_of_log_probabilities_is_unknown_if_one_is() -> None:
    assert ulp_between(token("x", x=-0.5), token("x", x=-0.5)) == 0
    assert ulp_between(token("x", x=-0.5), token("x")) is None

# SPDX-License-Identifier: Apache-2.0
"""What a verdict does not exclude, in a sentence. Pure."""

from collections.abc import Sequence

from ci_doctor.correctness.verdict.bounds import CONFIDENCE
from ci_doctor.correctness.verdict.decision import PermutationTest, RequestBound
from ci_doctor.render.formatting import whole_percent_up

_CONFIDENCE = f"(at {100 * CONFIDENCE:.4g}% confidence)"


def remaining_risk(bounds: Sequence[RequestBound]) -> str:
    """What a green verdict leaves open. `bounds` are those of all requests, the largest first."""
    worst = bounds[0]
    starts = "1 candidate start" if worst.starts == 1 else f"{worst.starts} candidate starts"
    if worst.bound >= 1:
        return (
            f"a fault on {worst.request} in any share of starts can hide: the candidate's answer "
            f"to it was its own in {worst.differed} of {starts}"
        )
    bound = whole_percent_up(worst.bound)
    if worst.differed:
        return (
            f"{worst.request} differed in {worst.differed} of {starts}: a fault on it that shows in "
            f"less than {bound}% of starts can hide {_CONFIDENCE}; "
            "so can any fault whose answers the baseline gave too"
        )
    return (
        f"a fault that shows in less than {bound}% of starts can hide behind {starts} "
        f"{_CONFIDENCE}; so can any fault whose answers the baseline gave too"
    )


def any_pair_risk(retries: int) -> str:
    """What the policy `any` lets through.

    One agreeing pair of starts is enough for it: 1 - q^n, if an attempt shows the bug with
    probability q. The sentence takes q = 1/2.
    """
    passed = 1 - 0.5**retries
    return (
        "the policy `any` lets a bug that shows in half of all attempts pass "
        f"{passed:.1%} of the time, if nothing else differs"
    )


def false_alarm_risk(test: PermutationTest) -> str:
    """How often a regression is declared without one."""
    return (
        "a candidate without any fault is called a regression in at most "
        f"{100 * test.alpha:.3g}% of such experiments"
    )

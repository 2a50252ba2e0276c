# SPDX-License-Identifier: Apache-2.0
"""What a verdict does not exclude, in a sentence. Pure."""

from ci_doctor.correctness.verdict.decision import PermutationTest

# Shares of alpha that are used. With one pattern the test stays far below its level; each further
# pattern uses up part of the allowed error rate. At alpha itself benchmarks/verdicts.py shows 3 to
# 5 % of false alarms in environments of many patterns; with these shares it shows 2 % at most.
_FEW_PATTERNS = 2
_OF_FEW = 0.72
_OF_MANY = 0.4


def level(alpha: float, smallest_p: float, patterns: int) -> float:
    """The p-value at which a regression is declared: `alpha` at most.

    `patterns` is the number of different ways in which requests split the starts. A change and one
    split by the environment make two: then twice the smallest p of five and three starts is enough.
    The number is known without the labels, so the choice leaves the test valid. The smallest p that
    these starts can reach is always enough.
    """
    used = alpha * (_OF_FEW if patterns <= _FEW_PATTERNS else _OF_MANY)
    return min(alpha, max(used, smallest_p))


def rare_bug_bound(clean: int, alpha: float) -> float:
    """The share of affected starts above which `clean` candidate starts exclude a bug, at `alpha`.

    A bug that shows in a share q of all starts stays hidden in all of them with probability
    (1 - q)^clean. The bound is the q at which that is `alpha` (the exact binomial limit of Clopper
    & Pearson 1934 for no event in `clean` trials).
    """
    return 1.0 - float(alpha ** (1 / clean))


def rare_bug_risk(clean: int, alpha: float) -> str:
    """What `clean` candidate starts leave open."""
    bound = rare_bug_bound(clean, alpha)
    starts = "1 clean candidate start" if clean == 1 else f"{clean} clean candidate starts"
    confidence = f"(at {1 - alpha:.0%} confidence)"
    return (
        f"a bug that shows in less than {bound:.0%} of starts can hide behind {starts} {confidence}"
    )


def any_pair_risk(retries: int) -> str:
    """What the policy `any` lets through.

    One agreeing pair of starts is enough for it: 1 - q^n, if an attempt shows the bug with
    probability q. The sentence takes q = 1/2.
    """
    passed = 1 - 0.5**retries
    return (
        "the policy `any` lets a bug that shows in half of all attempts pass "
        f"{passed:.1%} of the time"
    )


def false_alarm_risk(test: PermutationTest) -> str:
    """How often a regression is declared without one."""
    return (
        "a candidate without any fault is called a regression in at most "
        f"{test.alpha:.0%} of such experiments"
    )

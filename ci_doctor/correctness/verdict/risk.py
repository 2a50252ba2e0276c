# SPDX-License-Identifier: Apache-2.0
"""What a verdict does not exclude, in a sentence. Pure."""

from ci_doctor.correctness.verdict.decision import PermutationTest

# Shares of alpha that are used. With one pattern the test is far from its level, and every further one fills it up:
# benchmarks/verdicts.py shows 3 to 5 % of false alarms at alpha itself in worlds of many patterns, and some 2 % at most so.
_FEW_PATTERNS = 2
_OF_FEW = 0.72
_OF_MANY = 0.4


def level(alpha: float, smallest_p: float, patterns: int) -> float:
    """At which p a regression is told, `alpha` at most.

    `patterns` are the different ways in which requests split the starts. Two are what a change and one split of the
    environment's own make: then twice the smallest p of five and three starts is enough. How many there are is seen
    without looking at any label, so the choice leaves the test valid. The smallest p that is attainable is always enough.
    """
    used = alpha * (_OF_FEW if patterns <= _FEW_PATTERNS else _OF_MANY)
    return min(alpha, max(used, smallest_p))


def rare_bug_bound(clean: int, alpha: float) -> float:
    """The least share of starts in which a bug shows that `clean` candidate starts without it exclude at level `alpha`.

    A bug that shows in a share q of all starts stays hidden in all of them with probability (1 - q)^clean; the bound
    is the q at which that is `alpha` (the exact binomial limit of Clopper & Pearson 1934 for no event in `clean` trials).
    """
    return 1.0 - float(alpha ** (1 / clean))


def rare_bug_risk(clean: int, alpha: float) -> str:
    """What `clean` candidate starts leave open."""
    bound = rare_bug_bound(clean, alpha)
    starts = "1 clean candidate start" if clean == 1 else f"{clean} clean candidate starts"
    return f"a bug that shows in less than {bound:.0%} of starts can hide behind {starts} (at {1 - alpha:.0%} confidence)"


def any_pair_risk(retries: int) -> str:
    """What "one pair of starts that agree is enough" lets through: 1 - q^n, q being how often an attempt shows the bug."""
    passed = 1 - 0.5**retries
    return f"the policy `any` lets a bug that shows in half of all attempts pass {passed:.1%} of the time"


def false_alarm_risk(test: PermutationTest) -> str:
    """How a regression can be none."""
    return f"a candidate without any fault is called a regression in at most {test.alpha:.0%} of such experiments"

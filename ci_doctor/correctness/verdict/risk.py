# SPDX-License-Identifier: Apache-2.0
"""What a verdict does not exclude, in a sentence. Pure."""

from ci_doctor.correctness.verdict.decision import Test


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
    return (
        f"a bug that shows in less than {bound:.0%} of starts can hide behind {starts} (at {1 - alpha:.0%} confidence)"
    )


def any_pair_risk(retries: int) -> str:
    """What "one pair of starts that agree is enough" lets through: 1 - q^n, q being how often an attempt shows the bug."""
    passed = 1 - 0.5**retries
    return f"the policy `any` lets a bug that shows in half of all attempts pass {passed:.1%} of the time"


def false_alarm_risk(test: Test) -> str:
    """How a regression can be none."""
    return f"a candidate without any fault is called a regression in at most {test.alpha:.0%} of such experiments"

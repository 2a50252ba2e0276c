# SPDX-License-Identifier: Apache-2.0
"""What a verdict does not exclude, in a sentence. Pure."""

import math

from simulation.former.decision import PermutationTest, VerdictEvidence

# Shares of alpha that are used. With one pattern the test stays far below its level; each further
# pattern uses up part of the allowed error rate. At alpha itself benchmarks/verdicts.py shows 3 to
# 5 % of false alarms in environments of many patterns; with these shares it shows 2 % at most.
_FEW_PATTERNS = 2
_OF_FEW = 0.72
_OF_MANY = 0.4
# 100 * 0.95 may be 95.00000000000001, which is not rounded up.
_ROUNDING = 1e-9


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
    """What `clean` candidate starts leave open; see `clean_starts`."""
    # Rounded up: a smaller figure would exclude bugs that these starts do not exclude.
    bound = math.ceil(100 * rare_bug_bound(clean, alpha) - _ROUNDING)
    starts = "1 clean candidate start" if clean == 1 else f"{clean} clean candidate starts"
    confidence = f"(at {100 * (1 - alpha):.4g}% confidence)"
    return (
        f"a bug that shows in less than {bound}% of starts can hide behind {starts} {confidence}; "
        "so can any bug whose answers the baseline gave too"
    )


def unbounded_risk(clean: int, starts: int) -> str:
    """What is left open if only `clean` of the candidate's `starts` are clean."""
    differ = starts - clean
    return (
        f"a bug that shows in any share of starts can hide: {differ} of {starts} candidate starts "
        "differ from every baseline start, and a bug would look like that noise"
    )


def clean_starts(evidence: VerdictEvidence) -> int:
    """How many candidate starts answered every request as one and the same baseline start did.

    A bug with answers of its own did not show in a clean start. In any other start it may have
    shown, because noise and a bug look alike.
    """
    baseline = [start.answers for start in evidence.baseline if not start.failed]
    clean = 0
    for start in evidence.candidate:
        is_complete = not start.failed and None not in start.answers.values()
        if is_complete and start.answers in baseline:
            clean += 1
    return clean


def remaining_risk(evidence: VerdictEvidence, alpha: float) -> tuple[str, float | None]:
    """What a green verdict leaves open: a sentence, and the bound of `rare_bug_bound`.

    The bound is None unless every candidate start is clean. All of k starts are clean with
    probability (1 - q)^k at most, however early a run ends; if one of several may have shown the
    bug, that no longer holds (benchmarks/printed_risk.py simulates both).
    """
    starts = len(evidence.candidate)
    clean = clean_starts(evidence)
    if clean < starts:
        return unbounded_risk(clean, starts), None
    return rare_bug_risk(clean, alpha), rare_bug_bound(clean, alpha)


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
        f"{test.alpha:.0%} of such experiments"
    )

# SPDX-License-Identifier: Apache-2.0
"""How sure a run of trials makes us: exact tests and limits. Pure."""

import math

# The chance that a test failing at random, at whatever rate, is given a wrong kind: a strict
# confirmation is p^5 (1-p)^5 <= 2^-10 for any rate p, a lenient one adds its own level, and there
# are at most 16 of both: 16 * (2^-10 + 0.0005) = 0.024. The order takes up to three of them.
PAIRS = 5
MORE_PAIRS = 12
LEVEL = 0.0005
MOST_CONFIRMATIONS = 16
OF_ORDER = 3
WRONG_KIND_AT_MOST = MOST_CONFIRMATIONS * (2.0 ** (-2 * PAIRS) + LEVEL)


def schedule(pairs: int) -> tuple[bool, ...]:
    """For each of `2 * pairs` runs, whether it is made under the cause; otherwise it is a control.

    The order is that of Thue and Morse. Strict turns would let a test whose outcome alternates from
    run to run agree with any cause.
    """
    return tuple(index.bit_count() % 2 == 0 for index in range(2 * pairs))


def fisher(failed: int, other_failed: int, runs: int) -> float:
    """The one-sided p-value of Fisher's exact test (1935), for two conditions of `runs` runs each.

    It is the share of all ways to deal the failures to the runs that give the first condition at
    least `failed` of them.
    """
    failures = failed + other_failed
    ways = math.comb(2 * runs, failures)
    extreme = 0
    for count in range(failed, min(runs, failures) + 1):
        extreme += math.comb(runs, count) * math.comb(runs, failures - count)
    return extreme / ways

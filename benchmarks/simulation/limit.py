# SPDX-License-Identifier: Apache-2.0
"""The limit that knows the truth: the fewest starts at which an exact test can tell a fault that it knows already.

It knows which requests are at fault and how, so all that it asks of a start is whether it answers as the fault does. It
makes as many starts of each arm, looks after every one and pays for no look: no honest test needs fewer on average.
"""

import math
from random import Random
from typing import NamedTuple

from ci_doctor.correctness.settings import Arm, Rules
from simulation.scenario import Scenario
from simulation.servers import Servers
from simulation.worlds import BOTH

MOST = 40
ALPHA = Rules().alpha


class Limit(NamedTuple):
    """Of `runs` runs, how many were told within 40 starts, after how many starts on average."""

    runs: int
    told: int
    starts: float | None


def fisher(faulty: tuple[int, int], starts: tuple[int, int]) -> float:
    """The p-value of Fisher's exact test, one-sided: the second of two arms is faulty more often."""
    total, among = sum(faulty), sum(starts)
    most = min(total, starts[1])
    extreme = (
        math.comb(starts[1], k) * math.comb(starts[0], total - k)
        for k in range(faulty[1], most + 1)
    )
    return sum(extreme) / math.comb(among, total)


def starts_to_tell(servers: Servers) -> int | None:
    """The fewest starts at which the test rejects, in one run."""
    faulty = dict.fromkeys(Arm, 0)
    starts = dict.fromkeys(Arm, 0)
    for made in range(MOST):
        arm = BOTH[made % 2]
        servers.ask(arm)
        starts[arm] += 1
        faulty[arm] += servers.faulty
        p = fisher(_of_both(faulty), _of_both(starts))
        if p <= ALPHA:
            return made + 1
    return None


def _of_both(counts: dict[Arm, int]) -> tuple[int, int]:
    return counts[Arm.BASELINE], counts[Arm.CANDIDATE]


def limit(scenario: Scenario, rng: Random, runs: int) -> Limit:
    told = [starts_to_tell(Servers(scenario, rng)) for _ in range(runs)]
    counts = [each for each in told if each is not None]
    return Limit(runs, len(counts), sum(counts) / len(counts) if counts else None)

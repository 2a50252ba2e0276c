# SPDX-License-Identifier: Apache-2.0
"""How the cost of an act grows with its size: a ratio of CPU times, which a busy machine leaves as it is.

Reads the clock of this process.
"""

import time
from collections.abc import Callable

FACTOR = 4
# Linear growth gives 4, quadratic growth 16. Caches and a neighbour on the same core cost up to twice the time.
MOST = 10


def assert_linear(act: Callable[[int], object], size: int) -> None:
    """Fail if four times the size costs ten times the CPU time or more.

    `size` should cost some 10 ms, so that the ratio is one of the work and not of what comes before it.
    """
    small = _least_cpu_s(act, size)
    large = _least_cpu_s(act, FACTOR * size)

    assert large < MOST * max(small, 0.002), (
        f"{size}: {small:.4f} s, {FACTOR} times that: {large:.4f} s"
    )


def _least_cpu_s(act: Callable[[int], object], size: int) -> float:
    """The least of three: whatever disturbs a run adds to its time, nothing takes from it."""
    spent = []
    for _ in range(3):
        began = time.process_time()
        act(size)
        spent.append(time.process_time() - began)
    return min(spent)

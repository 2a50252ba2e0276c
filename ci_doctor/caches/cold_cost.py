# SPDX-License-Identifier: Apache-2.0
"""Pure. How long compiling took: what a log says, else the times of the files that it made.

A log's own figure counts all of a compile. The times of files count from the end of the first compile
to the end of the last one, without pauses: it is less than what the job has waited.
"""

from collections.abc import Iterable
from itertools import pairwise

from ci_doctor.store.manifest import ColdCost

# Between two files of one phase of compiling. A larger kernel takes longer, and then counts as a pause.
_PAUSE_S = 30.0
LOG = "log"
FILE_TIMES = "file times"


def span_s(times_ns: Iterable[int]) -> float:
    """Seconds between files that were written within half a minute of each other, summed."""
    ordered = sorted(times_ns)
    total = 0.0
    for earlier, later in pairwise(ordered):
        gap = (later - earlier) / 1e9
        if gap <= _PAUSE_S:
            total += gap
    return total


def cost_of(times_ns: Iterable[int], log_seconds: Iterable[float], gpus: int) -> ColdCost | None:
    """The cost of compiling files of these times (ns since the epoch); None if nothing was compiled.

    log_seconds: the seconds that a log names for its compiles; without any, the times decide.
    """
    times = list(times_ns)
    logged = list(log_seconds)
    if not times:
        return None
    if logged:
        return ColdCost(seconds=sum(logged), compiled=len(times), gpus=gpus, source=LOG)
    return ColdCost(seconds=span_s(times), compiled=len(times), gpus=gpus, source=FILE_TIMES)

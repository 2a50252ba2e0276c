# SPDX-License-Identifier: Apache-2.0
"""How long a start takes: assumed, as in an earlier run, or measured. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.correctness.settings import Arm
from ci_doctor.render import formatting

# Assumed of a server before its first start.
READY_S = 30.0
ANSWER_S = 1.0


class EstimateSource(StrEnum):
    """Where an estimate comes from."""

    ASSUMED = "assumed"
    EARLIER = "earlier run"
    MEASURED = "measured"


class Estimate(Struct, frozen=True, kw_only=True):
    """Seconds that a start of each arm takes, from its first process to its last.

    `basis` says in words where the figures come from.
    """

    start_s: Mapping[Arm, float]
    source: EstimateSource
    basis: str

    def total(self, arms: Sequence[Arm]) -> float:
        """Seconds that these starts take, one after the other."""
        return math.fsum(self.start_s[arm] for arm in arms)

    def fitting(self, arms: Sequence[Arm], left_s: float) -> int:
        """How many of these starts, from the first on, end within `left_s` seconds."""
        for count in range(1, len(arms) + 1):
            # `total` sums without rounding errors: exactly the budget still fits.
            if self.total(arms[:count]) > left_s:
                return count - 1
        return len(arms)

    def __str__(self) -> str:
        """`83.0 s`, or `40.0 s (baseline) and 83.0 s (candidate)` if they differ."""
        baseline = formatting.duration(self.start_s[Arm.BASELINE])
        candidate = formatting.duration(self.start_s[Arm.CANDIDATE])
        if baseline == candidate:
            return baseline
        return f"{baseline} (baseline) and {candidate} (candidate)"


def assumed(requests: int, passes: int, concurrency: int) -> Estimate:
    """Before any start: 30 s to be ready, 1 s for an answer.

    In each pass `concurrency` of the `requests` are under way at once.
    """
    seconds = READY_S + passes * math.ceil(requests / concurrency) * ANSWER_S
    return Estimate(
        start_s=dict.fromkeys(Arm, seconds),
        source=EstimateSource.ASSUMED,
        basis=f"assumed: {READY_S:.0f} s to be ready, {ANSWER_S:.0f} s an answer",
    )


def earlier(durations: Sequence[tuple[Arm, float]]) -> Estimate | None:
    """From the seconds that the starts of an earlier run took; None without any.

    They come from `finished_starts.earlier_durations`.
    """
    if not durations:
        return None
    basis = "as in the earlier run in this report directory"
    return _from(durations, EstimateSource.EARLIER, basis)


def corrected(prior: Estimate, durations: Sequence[tuple[Arm, float]]) -> Estimate:
    """`prior`, corrected by the seconds that the starts of this run took.

    For each arm the median of its own starts, else of the other's. A median, because one slow start
    must not sway it.
    """
    if not durations:
        return prior
    basis = f"measured in {formatting.amount(len(durations), 'start')}"
    return _from(durations, EstimateSource.MEASURED, basis)


def _from(durations: Sequence[tuple[Arm, float]], source: EstimateSource, basis: str) -> Estimate:
    of_all = []
    of_arm: dict[Arm, list[float]] = {arm: [] for arm in Arm}
    for arm, seconds in durations:
        of_all.append(seconds)
        of_arm[arm].append(seconds)
    medians = {}
    for arm, own in of_arm.items():
        # The arms differ by what they load, but less than a start differs from a guess.
        medians[arm] = statistics.median(own or of_all)
    return Estimate(start_s=medians, source=source, basis=basis)

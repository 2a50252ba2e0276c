# SPDX-License-Identifier: Apache-2.0
"""What a run is expected to take and to find, in a sentence before its first start. Pure."""

from ci_doctor.correctness.power import FaultPower, fault_power
from ci_doctor.correctness.settings import Rules
from ci_doctor.render import formatting

_HALF = 0.5


def expectation(rules: Rules, *, archived: bool = False) -> str:
    """The starts of a run without a difference, and how runs with two known faults end.

    The faults are on one request: one in every start of the candidate, one in half of them.
    `archived`: baseline starts of earlier builds stand beside the run. No full stop.
    """
    clean = fault_power(rules, 0.0, archived=archived)
    starts = formatting.amount(round(clean.mean_starts), "start")
    always = fault_power(rules, 1.0, archived=archived)
    half = fault_power(rules, _HALF, archived=archived)
    return (
        f"expected: {starts} if all answers are equal; a fault on one request in every start: "
        f"{_always(always)}; in half of all starts: {_sometimes(half)} "
        f"(mean {half.mean_starts:.1f} starts)"
    )


def _always(power: FaultPower) -> str:
    """Such a fault leaves nothing to chance: it is red at one look, or at none."""
    if power.red < _HALF:
        return f"undecided at {power.starts} starts"
    return f"red at {power.mean_starts:.0f} starts"


def _sometimes(power: FaultPower) -> str:
    red = formatting.percent(round(power.red, 2))
    green = formatting.percent(round(power.green, 2))
    return f"red in {red}, green in {green} of runs within {power.starts} starts"

# SPDX-License-Identifier: Apache-2.0
"""Pure. Rates for reports."""

from ci_doctor.history.statistics.wilson import wilson
from ci_doctor.model.facts.history import RateFacts


def rate_facts(hits: int, trials: int) -> RateFacts:
    """The share with its interval, rounded to what a reader can use."""
    interval = wilson(hits, trials)
    return RateFacts(
        rate=round(interval.rate, 6), low=round(interval.low, 6), high=round(interval.high, 6)
    )

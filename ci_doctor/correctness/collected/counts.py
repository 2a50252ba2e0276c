# SPDX-License-Identifier: Apache-2.0
"""Counts over collected samples: requests by kind, starts that answered alike. Pure."""

from ci_doctor.correctness.collected.reread import Collected
from ci_doctor.correctness.verdict.compare import clusters
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import DifferenceKind, restricted


def kind_counts(collected: Collected, decision: Decision) -> dict[DifferenceKind, int]:
    """How many requests are of each kind."""
    odd = collected.survey.odd
    counts = dict.fromkeys(DifferenceKind, 0)
    for request in odd:
        kind = decision.kinds.get(request, DifferenceKind.UNANSWERED)
        counts[kind] += 1
    # What was not read again is equal.
    counts[DifferenceKind.EQUAL] += len(collected.survey.requests) - len(odd)
    return counts


def cluster_names(collected: Collected) -> tuple[tuple[str, ...], ...]:
    """The names of the starts that answered everything alike, group by group."""
    odd = collected.survey.odd
    starts = [start for start in collected.starts if collected.answered(start)]
    if not odd:
        names = [start.name for start in starts]
        return (tuple(names),)
    # The other requests are the same everywhere, so they tell no two starts apart.
    return clusters(restricted(starts, odd))

# SPDX-License-Identifier: Apache-2.0
"""What came of localising a difference. Pure."""

from msgspec import Struct

from ci_doctor.correctness.localise.conditions import (
    LocalisedDifference,
    ReducedResult,
    ReducedStanding,
    smallest,
)
from ci_doctor.correctness.results import StartResult


class Localisation(Struct, frozen=True, kw_only=True):
    """The conditions that were tried for `subject`, those of the experiment first.

    `starts` were made for it. `stopped` is the reason why no more were made, empty if nothing
    smaller was left to try. `notes` are sentences. `requests_file` holds the request with a
    shortened prompt, if that is the smallest condition.
    """

    subject: LocalisedDifference
    results: tuple[ReducedResult, ...]
    starts: tuple[StartResult, ...] = ()
    stopped: str = ""
    notes: tuple[str, ...] = ()
    requests_file: str | None = None

    @property
    def smallest(self) -> ReducedResult | None:
        """The smallest condition under which the difference is still there."""
        return smallest(self.results)

    @property
    def has_tried(self) -> bool:
        """Whether any condition but those of the experiment was tried."""
        return any(
            each.pairs and each.standing is not ReducedStanding.NOT_TRIED for each in self.results
        )

# SPDX-License-Identifier: Apache-2.0
"""What came of localising a difference. Pure."""

from msgspec import Struct

from ci_doctor.correctness.localise.search import LocalisedCause
from ci_doctor.correctness.localise.trials import LocalisedDifference, Trial, TrialResult
from ci_doctor.correctness.results import StartResult
from ci_doctor.load.requests import Request


class Localisation(Struct, frozen=True, kw_only=True):
    """The trials that were made for `subject`, and the `conclusion` of them all.

    `starts` were made for it. `stopped` is the reason why no more were made, empty if nothing was
    left to try. `notes` are sentences. `requests` are those that trials name; `requests_file` holds
    those of the smallest trial that differs, if a command needs them.
    """

    subject: LocalisedDifference
    conclusion: LocalisedCause = LocalisedCause()
    results: tuple[TrialResult, ...] = ()
    requests: dict[str, Request] = {}
    starts: tuple[StartResult, ...] = ()
    stopped: str = ""
    notes: tuple[str, ...] = ()
    requests_file: str | None = None

    @property
    def smallest(self) -> Trial | None:
        """The smallest trial in which the difference came again; None if it never did."""
        return next(iter(self.conclusion.shown), None)

    @property
    def has_tried(self) -> bool:
        """Whether any start has shown something."""
        return any(each.compared for each in self.results)

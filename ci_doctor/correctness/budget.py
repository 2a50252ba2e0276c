# SPDX-License-Identifier: Apache-2.0
"""The wall clock that a run may take. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.correctness.settings import CorrectnessSettings
from ci_doctor.render import formatting

DEFAULT_BUDGET_S = 25 * 60.0
# Part of a budget is kept for stopping the last start, and for the report.
LONGEST_RESERVE_S = 12.0
SHORTEST_RESERVE_S = 0.5
RESERVE_SHARE = 0.25
# The most that processes get to end by themselves: SIGKILL must come well before the report.
LONGEST_GRACE_S = 5.0
# Part of a step's timeout is kept for checkout, setup and the upload of the report.
LEAST_MARGIN_S = 60.0
MARGIN_SHARE = 0.1


class Budget(Struct, frozen=True, kw_only=True):
    """`seconds` of wall clock from the monotonic time `began` on, the report included.

    `spent_s` of them are gone before the first start: they tell how busy the machine is. `is_assumed`:
    neither a person nor the step set them, so the first start may show that they are too few.
    """

    began: float
    seconds: float
    spent_s: float = 0.0
    is_assumed: bool = False

    @property
    def reserve_s(self) -> float:
        """The seconds that are kept for stopping and for the report.

        To write the report takes about as much work as to load what writes it, and a busy machine
        is as slow at both.
        """
        return min(LONGEST_RESERVE_S, self._quiet_reserve_s + self.spent_s)

    @property
    def grace_s(self) -> float:
        """The seconds in which processes may end by themselves, well before the report is due."""
        return min(LONGEST_GRACE_S, self._quiet_reserve_s / 3)

    @property
    def _quiet_reserve_s(self) -> float:
        return min(LONGEST_RESERVE_S, SHORTEST_RESERVE_S + RESERVE_SHARE * self.seconds)

    @property
    def deadline(self) -> float:
        """The monotonic time at which the last start is stopped."""
        return self.began + self.seconds - self.reserve_s


def budget_of(
    settings: CorrectnessSettings,
    environment: Mapping[str, str],
    began: float,
    now: float | None = None,
) -> tuple[Budget, str]:
    """The budget of a run that began at that monotonic time; `now` is the time, else `began`.

    The text says where it comes from, if nobody gave it. Raises UsageError.
    """
    spent_s = 0.0 if now is None else max(0.0, now - began)
    if settings.budget is not None:
        # What a person wrote needs no note of where it comes from.
        seconds = seconds_above_zero(settings.budget, "budget")
        return Budget(began=began, seconds=seconds, spent_s=spent_s), ""
    of_step = default_budget(environment)
    seconds, note = of_step or (DEFAULT_BUDGET_S, "")
    budget = Budget(began=began, seconds=seconds, spent_s=spent_s, is_assumed=of_step is None)
    return budget, note


def default_budget(environ: Mapping[str, str]) -> tuple[float, str] | None:
    """The seconds that a Buildkite step's timeout leaves, and a sentence; None without a timeout.

    BUILDKITE_TIMEOUT is in minutes, or the word `false`. It counts from the start of the job, hooks
    and uploads included (https://buildkite.com/docs/pipelines/configure/build-timeouts), and a job
    cannot know when it started. So a margin is left: a tenth, at least a minute, at most half.
    """
    try:
        timeout_s = 60.0 * int(environ.get("BUILDKITE_TIMEOUT", ""))
    except ValueError:
        return None
    if timeout_s <= 0:
        return None
    margin_s = min(max(LEAST_MARGIN_S, MARGIN_SHARE * timeout_s), timeout_s / 2)
    seconds = timeout_s - margin_s
    return seconds, (
        f"budget {formatting.duration(seconds)}: the step's timeout of "
        f"{formatting.duration(timeout_s)} (BUILDKITE_TIMEOUT), less {formatting.duration(margin_s)} "
        "for checkout, setup and upload"
    )

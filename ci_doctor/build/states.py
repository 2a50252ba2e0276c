# SPDX-License-Identifier: Apache-2.0
"""Pure. What a job's state in Buildkite's API says of its report.

https://buildkite.com/docs/pipelines/configure/defining-steps#job-states
"""

from typing import Final

_NEVER_RAN: Final = frozenset(
    {
        "broken",
        "skipped",
        "pending",
        "waiting",
        "waiting_failed",
        "blocked",
        "blocked_failed",
        "unblocked",
        "unblocked_failed",
    }
)
_NOT_ENDED: Final = frozenset(
    {
        "limiting",
        "limited",
        "platform_limiting",
        "platform_limited",
        "scheduled",
        "assigned",
        "accepted",
        "running",
        "canceling",
        "timing_out",
    }
)
_CANCELLED: Final = frozenset({"canceled", "canceling"})
_STOPPED: Final = frozenset({"canceled", "timed_out", "expired"})


def never_ran(state: str | None) -> bool:
    """Whether there is no run that could have left a report."""
    return state in _NEVER_RAN


def has_not_ended(state: str | None) -> bool:
    """Whether the run may still leave a report."""
    return state in _NOT_ENDED


def was_stopped(state: str | None) -> bool:
    """Whether Buildkite, or a person, ended the job."""
    return state in _STOPPED


def was_cancelled(state: str | None) -> bool:
    """Whether somebody stopped the job; Buildkite does so too, with a newer build."""
    return state in _CANCELLED


def has_passed(state: str | None) -> bool:
    """Whether Buildkite says that the job passed. A state that is unknown says nothing."""
    return state == "passed"


def has_failed(state: str | None) -> bool:
    """Whether the job has ended, and did not pass; so has one in a state that is new to us."""
    if state is None or has_passed(state):
        return False
    return not never_ran(state) and not has_not_ended(state)

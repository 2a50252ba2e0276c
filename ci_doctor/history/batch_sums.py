# SPDX-License-Identifier: Apache-2.0
"""Pure. The attempts of a batch -> rows of attempts, and what they add to the sums."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from ci_doctor.history.evidence import AttemptEvidence, AttemptOutcome
from ci_doctor.history.schema import ALL_BRANCHES, DAY_MS

Row = dict[str, Any]
_PASSED: Final = 0
_FAILED: Final = 1
_INFRA: Final = 2
# The place of an outcome in [passed, failed, infra]; a skip counts nowhere.
_PLACE: Final[dict[int, int]] = {
    AttemptOutcome.PASSED: _PASSED,
    AttemptOutcome.FAILED: _FAILED,
    AttemptOutcome.ERROR: _FAILED,
    AttemptOutcome.INFRA: _INFRA,
}


class FileNumbers(Struct, frozen=True, kw_only=True):
    """The numbers that all attempts of a file share. branch, step: UNKNOWN_… if not known."""

    source: int
    job: int
    branch: int
    commit: int | None
    step: str


class BatchSums:
    """What a batch adds, row by row."""

    def __init__(self) -> None:
        self.attempts: list[Row] = []
        self._days: dict[tuple[int, int, int], list[int]] = {}
        self._commits: dict[tuple[int, int, str], list[int]] = {}

    def add(
        self, numbers: FileNumbers, test: int, cause: int | None, attempt: AttemptEvidence
    ) -> None:
        """Count one attempt of a test."""
        started = attempt.started_ms or 0
        self.attempts.append(
            {
                "test_id": test,
                "started_ms": started,
                "source_id": numbers.source,
                "number": attempt.number,
                "job_id": numbers.job,
                "outcome": int(attempt.outcome),
                "duration_ms": attempt.duration_ms,
                "cause_id": cause,
            }
        )
        self.count(numbers, test, started, attempt.outcome, attempt.duration_ms or 0)

    def count(
        self,
        numbers: FileNumbers,
        test: int,
        started: int,
        outcome: int,
        duration: int,
        *,
        times: int = 1,
    ) -> None:
        """Count an attempt `times` times, -1 to take it back: both in milliseconds."""
        place = _PLACE.get(outcome)
        if place is None:
            return
        number = started // DAY_MS
        for branch in (ALL_BRANCHES, numbers.branch):
            day = self._days.setdefault((branch, number, test), [0, 0, 0, 0])
            day[place] += times
            day[3] += times * duration
        if numbers.commit is not None:
            commit = self._commits.setdefault((numbers.commit, test, numbers.step), [0, 0, 0, 0])
            commit[place] += times
            commit[3] = max(commit[3], started)

    def attempt_rows(self) -> list[Row]:
        """The attempts in the order of their table, which writes each of its pages once."""
        return sorted(self.attempts, key=lambda row: (row["test_id"], row["started_ms"]))

    def day_rows(self) -> list[Row]:
        """Rows for `test_day`, in the order of its key."""
        return [
            {
                "branch_id": branch,
                "day": day,
                "test_id": test,
                "passed": sums[_PASSED],
                "failed": sums[_FAILED],
                "infra": sums[_INFRA],
                "duration_ms": sums[3],
            }
            for (branch, day, test), sums in sorted(self._days.items())
        ]

    def commit_rows(self) -> list[Row]:
        """Rows for `test_commit`, in the order of its key."""
        return [
            {
                "commit_id": commit,
                "test_id": test,
                "step": step,
                "passed": sums[_PASSED],
                "failed": sums[_FAILED],
                "infra": sums[_INFRA],
                "last_ms": sums[3],
            }
            for (commit, test, step), sums in sorted(self._commits.items())
        ]


def outcome_counts(attempts: Iterable[AttemptEvidence]) -> list[int]:
    """How many passed, failed, and failed for a reason outside."""
    counts = [0, 0, 0]
    for attempt in attempts:
        place = _PLACE.get(attempt.outcome)
        if place is not None:
            counts[place] += 1
    return counts

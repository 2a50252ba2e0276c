# SPDX-License-Identifier: Apache-2.0
"""What facts, cases and sentences about a result have in common. Pure."""

import os
from pathlib import Path

from ci_doctor.model.quantities import moment_text
from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.attempt import PytestOutcome, RunKind
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.result import PytestResult

SKIPPED = "skipped"


def counts_of(result: PytestResult) -> dict[str, int]:
    """Tests by verdict; skipped and quarantined ones apart."""
    counts: dict[str, int] = {}
    for judged in result.judged:
        key = str(judged.verdict)
        if judged.test in result.quarantined and judged.verdict is not Verdict.PASS:
            key = "quarantined"
        elif is_skipped(judged):
            key = SKIPPED
        counts[key] = counts.get(key, 0) + 1
    return counts


def is_skipped(judged: TestJudgement) -> bool:
    """Whether the test was skipped."""
    last = judged.last
    return (
        judged.verdict is Verdict.PASS
        and last is not None
        and last.outcome is PytestOutcome.SKIPPED
    )


def is_worth_telling(judged: TestJudgement) -> bool:
    """Whether it did more than pass, in the suite and before another test in an order."""
    if judged.is_plain_pass:
        return False
    if judged.verdict is not Verdict.PASS:
        return True
    return any(not run.attempt.is_green or run.kind is RunKind.NEW for run in judged.runs)


def relative_log(log: str | None, directory: Path | None) -> str | None:
    """The path of a log in the report directory; None if it was not kept."""
    if log is None or directory is None:
        return None
    return os.path.relpath(log, directory)


def timestamp_of(epoch_s: float | None) -> str | None:
    """Seconds since the epoch as RFC 3339 in UTC."""
    return None if epoch_s is None else moment_text(epoch_s)

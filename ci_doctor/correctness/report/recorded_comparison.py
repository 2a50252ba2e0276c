# SPDX-License-Identifier: Apache-2.0
"""Reads what the gate of a finished run compared."""

from pathlib import Path

from ci_doctor.correctness.comparison import AnswerLevel, Comparison, read_comparison
from ci_doctor.correctness.evidence.run_identity import read_run
from ci_doctor.errors import UsageError


def recorded_comparison(directory: Path) -> Comparison:
    """The comparison of the run in a report directory; everything, if it does not say so."""
    try:
        settings = read_run(directory).identity.settings
        level = AnswerLevel(str(settings.get("compare") or AnswerLevel.NUMBERS))
        limit = settings.get("limit")
        return read_comparison(level, str(limit) if limit else None)
    except (UsageError, ValueError):
        # Samples alone can be shown too, or those of an earlier version.
        return Comparison()

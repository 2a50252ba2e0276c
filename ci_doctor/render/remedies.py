# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a remedy is a sentence to read or a command to paste."""

import re

from ci_doctor.model.finding import Finding, RemedyKind


def is_advice(finding: Finding) -> bool:
    """Whether the remedy of a finding is a sentence; else it is a command to paste."""
    if finding.remedy_kind is not None:
        return finding.remedy_kind is RemedyKind.ADVICE
    # A report of an earlier version does not tell.
    return is_sentence(finding.remedy or "")


def is_sentence(remedy: str) -> bool:
    """True for prose: it quotes its commands in backticks, or ends with a full stop.

    Anything else is a command: it is pasted whole and never broken.
    """
    # `ruff check .` ends with a full stop, too, but not with a word.
    return "`" in remedy or re.search(r"\w\.$", remedy) is not None

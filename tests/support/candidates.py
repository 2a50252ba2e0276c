# SPDX-License-Identifier: Apache-2.0
"""Candidates of a diagnosis, as tests of its decisions need them."""

from typing import Any

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.lines.clean_line import CleanLine
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.reading.log_text import TextLine


def a_candidate(line: int, role: Role = Role.CAUSE, **fields: Any) -> Candidate:
    """A candidate in that line of the first log, by a rule of that role; `fields` are its own."""
    rule = LogRule(id=f"a/{role}", role=role, literals=("x",), regex="x")
    values: dict[str, Any] = {
        "log": 0,
        "line": TextLine(line, line * 10, b"x"),
        "clean": CleanLine(text="x", message="x"),
        "rule": rule,
        "fields": {},
    }
    return Candidate(**{**values, **fields})

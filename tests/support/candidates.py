# SPDX-License-Identifier: Apache-2.0
"""Candidates of a diagnosis, as tests of its decisions need them."""

from typing import Any

from ci_doctor.diagnosis.log_rules import LogRule, Role
from ci_doctor.diagnosis.log_text import CleanLine, TextLine
from ci_doctor.diagnosis.rank import Candidate


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

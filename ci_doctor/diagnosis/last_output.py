# SPDX-License-Identifier: Apache-2.0
"""Reads what a failed command printed last: where to look if no rule names anything better."""

from collections.abc import Container

from ci_doctor.diagnosis.failure_class import FailureClass
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.scanning.scan import Hit

# A tool that fails says why at its end; what stands further up is rather about something else.
_LINES = 60
LAST_OUTPUT = LogRule(
    id="generic/last-output",
    role=Role.ERROR,
    class_=FailureClass.CODE_BUG,
    weight=20,
    literals=(),
    regex="",
    explanation="The command failed, and these are its last words.",
    remedy="Read the lines above it.",
)


def last_output(log: LogText, end: TextLine, skipped: Container[int]) -> Hit | None:
    """The last line with words before the line `end`; None if there is none.

    skipped: offsets of lines that only repeat that something failed.
    """
    for line in reversed(log.before(end, _LINES)):
        if line.offset in skipped:
            continue
        clean = clean_line(line.content)
        if any(letter.isalnum() for letter in clean.message):
            return Hit(rule=-1, line=line, clean=clean, fields={})
    return None

# SPDX-License-Identifier: Apache-2.0
"""Reads what a failed command printed last: where to look if no rule names anything better."""

from collections.abc import Container, Iterable, Iterator

from ci_doctor.diagnosis.failure_class import FailureClass
from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine

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


def last_outputs(
    log: LogText, ends: Iterable[TextLine], skipped: Container[int]
) -> Iterator[tuple[TextLine, CleanLine]]:
    """For each of `ends`, which report that a command failed, the last line before it with words.

    skipped: offsets of lines that only repeat that something failed.
    """
    for end in ends:
        for line in reversed(log.before(end, _LINES)):
            if line.offset in skipped:
                continue
            clean = clean_line(line.content)
            if any(letter.isalnum() for letter in clean.message):
                yield line, clean
                break

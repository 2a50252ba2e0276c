# SPDX-License-Identifier: Apache-2.0
"""Pure. What a failed command printed last: where to look if no rule names anything better."""

import re
from collections.abc import Container, Sequence
from typing import Final

from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.reading.log_text import TextLine
from ci_doctor.model.cause import FailureClass

# A tool that fails says why at its end; what stands further up is rather about something else.
LAST_LINES = 60
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


# Above it nothing is of this command.
_PROMPT: Final = re.compile(r"(?:~~~ |\$ |\+{1,3} )\S|##\[(?:group|endgroup)\]|shell: \S")


def last_output(
    lines: Sequence[TextLine], skipped: Container[int]
) -> tuple[TextLine, CleanLine] | None:
    """The last of `lines` with words; None if there is none.

    skipped: offsets of lines that only repeat that something failed. A traceback that ends with
    one of them says no more than it.
    """
    has_skipped = False
    for line in reversed(lines):
        if line.offset in skipped:
            has_skipped = True
            continue
        clean = clean_line(line.content)
        is_header = has_skipped and clean.message.startswith("Traceback (most recent call last)")
        if is_header or _PROMPT.match(clean.message) is not None:
            return None
        if has_skipped and clean.message.startswith("  "):
            continue
        if any(letter.isalnum() for letter in clean.message):
            return line, clean
    return None

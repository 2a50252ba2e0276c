# SPDX-License-Identifier: Apache-2.0
"""Reads the lines around a place in a log, cleaned for a reader."""

from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.system.secrets.private_keys import without_key_lines

_BEFORE = 6
_AFTER = 9
_CONTEXT = 120


def excerpt_around(log: LogText, line: TextLine) -> LogLines:
    """`line` with at most 6 lines before it and 9 after it."""
    before = log.before(line, _BEFORE + _CONTEXT)
    lines = [*before, *log.after(line, _AFTER + _CONTEXT)]
    # Before it is cut: the lines around it tell what the last line of a key is.
    contents = without_key_lines(b"\n".join(each.content for each in lines)).split(b"\n")
    n_before = min(len(before), _BEFORE)
    shown = contents[len(before) - n_before : len(before) + _AFTER + 1]
    cleaned = [clean_line(each) for each in shown]
    # What each line of a process begins with would take the room of what it says.
    writer = cleaned[n_before].writer
    messages = [each.message if each.writer == writer else each.text for each in cleaned]
    messages[n_before] = messages[n_before] or cleaned[n_before].text
    return LogLines(
        file=log.name,
        first_line=line.number - n_before,
        lines=tuple(each.text for each in cleaned),
        marked=n_before,
        messages=tuple(messages),
    )

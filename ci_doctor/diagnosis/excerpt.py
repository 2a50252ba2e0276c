# SPDX-License-Identifier: Apache-2.0
"""Reads the lines around a place in a log, cleaned for a reader."""

from ci_doctor.diagnosis.cause import LogExcerpt
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine

_BEFORE = 6
_AFTER = 9


def excerpt_around(log: LogText, line: TextLine) -> LogExcerpt:
    """`line` with at most 6 lines before it and 9 after it."""
    before = log.before(line, _BEFORE)
    texts = [clean_line(each.content).text for each in (*before, *log.after(line, _AFTER))]
    return LogExcerpt(first_line=line.number - len(before), lines=tuple(texts), marked=len(before))

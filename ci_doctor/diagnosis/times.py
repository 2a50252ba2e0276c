# SPDX-License-Identifier: Apache-2.0
"""Reads when the strongest candidates of several logs were written."""

from collections.abc import Sequence

import msgspec

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.lines.clock import LogTime, log_time
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.timeline import common_scale

# Lines before a candidate that may hold its time: a traceback's lines often have none.
_LOOKED_BACK = 80
_END_LINES = 40


def with_times(candidates: Sequence[Candidate], logs: Sequence[LogText]) -> list[Candidate]:
    """`candidates` with their times on one scale, where their lines or earlier ones have any."""
    times: list[list[LogTime | None]] = []
    for index, log in enumerate(logs):
        own = [_written(each.line, log) for each in candidates if each.log == index]
        times.append([*own, _last_time(log.tail(_END_LINES))])
    scale = [iter(each) for each in common_scale(times)]
    return [msgspec.structs.replace(each, at_s=next(scale[each.log])) for each in candidates]


def _written(line: TextLine, log: LogText) -> LogTime | None:
    """The time of `line`, else that of the last line before it that has one."""
    time = _time_of(line)
    if time is not None:
        return time
    return _last_time(log.before(line, _LOOKED_BACK))


def _last_time(lines: Sequence[TextLine]) -> LogTime | None:
    for line in reversed(lines):
        time = _time_of(line)
        if time is not None:
            return time
    return None


def _time_of(line: TextLine) -> LogTime | None:
    return log_time(line.content[:400].decode(errors="replace"))

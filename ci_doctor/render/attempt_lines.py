# SPDX-License-Identifier: Apache-2.0
"""Pure. The attempts of a report -> lines for a terminal."""

from ci_doctor.model.outcome import Attempt
from ci_doctor.render.formatting import duration
from ci_doctor.render.layout import pad, widest, wrap
from ci_doctor.render.safe_text import one_line
from ci_doctor.render.styled_terminal import StyledTerminal

_ATTEMPTS_SHOWN = 20
_PASSED = ("✓", "green")
_NOT_PASSED = ("✗", "red")


def attempt_lines(attempts: tuple[Attempt, ...], terminal: StyledTerminal) -> list[str]:
    """The attempts in columns, the earliest first, and how many are not shown."""
    shown = attempts[:_ATTEMPTS_SHOWN]
    names = []
    times = []
    for attempt in shown:
        names.append(one_line(attempt.name))
        times.append(duration(attempt.duration_s))
    name_cells = widest(names)
    time_cells = widest(times)
    lines = [terminal.bold("Attempts")]
    for attempt, name, time in zip(shown, names, times, strict=True):
        padded = pad(name, name_cells)
        # A duration is ASCII: a character of it is a cell.
        right = time.rjust(time_cells)
        head = f"{padded}  {right}  "
        lines += _attempt(attempt, head, terminal)
    missing = len(attempts) - len(shown)
    if missing:
        note = f"  … and {missing} more in report.json"
        lines.append(terminal.dim(note))
    return lines


def _attempt(attempt: Attempt, head: str, terminal: StyledTerminal) -> list[str]:
    """One attempt, its outcome wrapped beside `head`; the log only of one that did not pass."""
    mark, style = _PASSED if attempt.ok else _NOT_PASSED
    outcome = one_line(attempt.outcome)
    start = f"  {mark} {head}"
    column = " " * widest([start])
    first, *more = wrap(outcome, terminal.width, first=start, rest=column)
    painted = terminal.paint(mark, style)
    after_mark = first[3:]
    lines = [f"  {painted}{after_mark}", *more]
    if attempt.log and not attempt.ok:
        log = terminal.path(attempt.log)
        lines.append(column + log)
    return lines

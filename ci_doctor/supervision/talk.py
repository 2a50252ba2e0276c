# SPDX-License-Identifier: Apache-2.0
"""Pure. What a person reads below the output of a command that failed: twelve lines at most."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ci_doctor.render.safe_text import printable

if TYPE_CHECKING:
    from ci_doctor.diagnosis.cause import Cause, Diagnosis, LogPlace

MOST_LINES: Final = 12
_CONSEQUENCES: Final = 3
_CHARACTERS: Final = 300  # of one line: a log's line may be a megabyte


def talk(
    summary: str, diagnosis: "Diagnosis | None", log: str | None, problems: Iterable[str]
) -> str:
    """`summary` says how the command ended, `log` is the path of its kept log, None without one."""
    lines = [f"✗ {summary}"]
    if diagnosis is not None:
        lines += _diagnosed(diagnosis, log)
    if log is not None:
        lines.append(f"  log: {log}")
    noted = [f"  note: {problem}" for problem in problems]
    # The notes come last, and give way.
    lines = [*lines, *noted][:MOST_LINES]
    return "".join(f"{_short(line)}\n" for line in lines)


def _diagnosed(diagnosis: "Diagnosis", log: str | None) -> list[str]:
    if diagnosis.cause is not None:
        return _cause(diagnosis.cause, log)
    lines = ["  no line explains it well enough to be called the cause"]
    if diagnosis.best is not None:
        lines.append(f"  look first at {_place(diagnosis.best, log)}")
        lines.append(f"  │ {diagnosis.best.text.strip()}")
    return lines


def _cause(cause: "Cause", log: str | None) -> list[str]:
    percent = round(cause.confidence * 100)
    lines = [
        f"  cause ({percent} %): {cause.explanation}",
        f"  {_place(cause.place, log)}",
        f"  │ {cause.place.text.strip()}",
    ]
    for each in cause.consequences[:_CONSEQUENCES]:
        lines += [f"  so, line {each.line}: {each.text.strip()}"]
    lines.append(f"  try: {cause.remedy}")
    if cause.next_command is not None:
        lines.append(f"  run: {cause.next_command}")
    return lines


def _place(place: "LogPlace", log: str | None) -> str:
    if log is None:
        return f"line {place.line} of the output"
    return f"{log}:{place.line}"


def _short(line: str) -> str:
    clean = printable(line).replace("\n", " ")
    if len(clean) <= _CHARACTERS:
        return clean
    return f"{clean[:_CHARACTERS]}…"

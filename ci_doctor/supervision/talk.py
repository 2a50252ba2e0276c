# SPDX-License-Identifier: Apache-2.0
"""Pure. What a person reads below the output of a command that failed: twelve lines at most."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ci_doctor.render.formatting import percent
from ci_doctor.render.safe_text import printable
from ci_doctor.system.secrets.private_keys import shortened_words

if TYPE_CHECKING:
    from ci_doctor.model.cause import Cause, LogLine
    from ci_doctor.model.facts.diagnose import DiagnoseFacts

MOST_LINES: Final = 12
_CONSEQUENCES: Final = 3
_CHARACTERS: Final = 300  # of one line: a log's line may be a megabyte


def talk(
    summary: str,
    facts: "DiagnoseFacts | None",
    log: str | None,
    problems: Iterable[str],
    kernel: Iterable[str] = (),
) -> str:
    """`summary` says how the command ended, `facts` what its log says, None without a diagnosis.

    log: the path of the log; None if it is not kept. kernel: what the kernel says of that end.
    """
    lines = [f"✗ {summary}", *(f"  {sentence}" for sentence in kernel)]
    if facts is not None:
        lines += _diagnosed(facts, log)
    if log is not None:
        lines.append(f"  log: {log}")
    noted = [f"  note: {problem}" for problem in problems]
    # The notes come last, and give way.
    lines = [*lines, *noted][:MOST_LINES]
    return "".join(f"{_short(line)}\n" for line in lines)


def _diagnosed(facts: "DiagnoseFacts", log: str | None) -> list[str]:
    if facts.root_cause is not None:
        return _cause(facts.root_cause, log)
    lines = ["  no line explains it well enough to be called the cause"]
    excerpt = facts.excerpt
    if excerpt is not None:
        place = _place(excerpt.first_line + excerpt.marked, log)
        lines += [f"  begin at {place}", f"  │ {excerpt.lines[excerpt.marked].strip()}"]
    return lines


def _cause(cause: "Cause", log: str | None) -> list[str]:
    sure = percent(round(cause.confidence or 0.0, 2))
    lines = [
        f"  {cause.title}, {sure} sure: {cause.explanation}",
        f"  {_place(cause.place.line, log)}",
        f"  │ {cause.place.text.strip()}",
    ]
    lines += [_consequence(each) for each in cause.consequences[:_CONSEQUENCES]]
    lines.append(f"  try: {cause.remedy} {cause.about_retry}".rstrip())
    if cause.next_command is not None:
        lines.append(f"  run: {cause.next_command}")
    return lines


def _consequence(line: "LogLine") -> str:
    return f"  so, line {line.line}: {line.text.strip()}"


def _place(line: int | None, log: str | None) -> str:
    if log is None:
        return f"line {line} of the output"
    return f"{log}:{line}"


def _short(line: str) -> str:
    clean = printable(line).replace("\n", " ")
    return shortened_words(clean, _CHARACTERS)

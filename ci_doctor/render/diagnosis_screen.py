# SPDX-License-Identifier: Apache-2.0
"""Pure. What a diagnosis names, or does not -> lines for a terminal, at most a screen of them."""

from collections.abc import Iterator

import msgspec
from msgspec import structs

from ci_doctor.decodable import decodable
from ci_doctor.model.cause import Cause
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.model.facts.history import HISTORY_TITLE
from ci_doctor.model.outcome import Report
from ci_doctor.render.formatting import numbered, one_line, percent, printable
from ci_doctor.render.layout import StyledTerminal, clip, table_lines, widest, wrap

_WIDTH = 80
_MESSAGE_CELLS = 240


def named_cause_json(cause: Cause) -> str:
    """`cause` as one line of JSON with a newline."""
    try:
        encoded = msgspec.json.encode(cause)
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        file = cause.place.file.encode(errors="replace").decode()
        place = structs.replace(cause.place, file=file)
        encoded = msgspec.json.encode(structs.replace(cause, place=place))
    return encoded.decode() + "\n"


def named_cause_text(cause: Cause) -> str:
    """Place, class and message of `cause`, and what to do; nothing in it acts on a terminal."""
    place = _safe(cause.place.where)
    lines = [f"{place}  {cause.title}"]
    message = clip(_safe(cause.place.message), _MESSAGE_CELLS)
    lines += wrap(message, _WIDTH, first="  ", rest="  ", breakable=True)
    lines += wrap(_safe(cause.remedy), _WIDTH, first="  try: ", rest="       ")
    if cause.next_command:
        lines.append(f"  {_safe(cause.next_command)}")
    return "\n".join(lines) + "\n\n"


def _safe(text: str) -> str:
    return one_line(printable(text))


_AFTER = 3  # lines of the excerpt below the cause
_CAUSE_ROWS = 3
_CONSEQUENCES = 4
_PLACE_CELLS = 30  # of the column in which the consequences' places stand


def diagnosis_blocks(report: Report, terminal: StyledTerminal) -> Iterator[list[str]]:
    """What the first finding of a diagnosis says, for a terminal.

    Nothing for a report of another command, and for one whose facts are damaged. `report` is
    cleaned (`safe_text.cleaned`).
    """
    try:
        cause = msgspec.convert(report.facts.get("root_cause"), decodable(Cause | None))
        excerpt = msgspec.convert(report.facts.get("excerpt"), decodable(LogLines | None))
    except msgspec.ValidationError:
        return
    if cause is not None:
        yield from _cause_blocks(report, cause, excerpt, terminal)
    elif excerpt is not None and report.findings:
        yield from _begin_blocks(report, excerpt, terminal)


def _cause_blocks(
    report: Report, cause: Cause, excerpt: LogLines | None, terminal: StyledTerminal
) -> Iterator[list[str]]:
    """The cause, its excerpt, what followed and what to do; how often it was seen before, if a history is kept."""
    yield _head(cause, terminal)
    if excerpt is not None:
        yield _excerpt(excerpt, terminal)
    if cause.consequences:
        yield _consequences(cause, terminal)
    lines = [terminal.bold("What to do")]
    for text in filter(None, (cause.explanation, cause.remedy, cause.about_retry)):
        lines += terminal.indented(one_line(text))
    if cause.next_command:
        lines += ["", f"  {one_line(cause.next_command)}"]
    yield lines
    for table in report.tables:
        if table.title == HISTORY_TITLE:
            yield [
                terminal.bold(HISTORY_TITLE),
                *table_lines(table, terminal.width, breakable=terminal.has_edge),
            ]
    reasons = ", ".join(map(one_line, cause.reasons))
    text = f"rests on: {reasons}; fingerprint {one_line(cause.fingerprint)}"
    yield [terminal.dim(each) for each in wrap(text, terminal.width)]


def _begin_blocks(
    report: Report, excerpt: LogLines, terminal: StyledTerminal
) -> Iterator[list[str]]:
    """Without a cause: that there is none, and where to begin."""
    yield wrap(report.summary, terminal.width)
    place = f"{one_line(excerpt.file)}:{excerpt.first_line + excerpt.marked}"
    yield [f"{terminal.bold('Begin at')} {terminal.path(place)}", *_excerpt(excerpt, terminal)]
    for table in report.tables:
        rows = table_lines(table, terminal.width, breakable=terminal.has_edge)[:_CONSEQUENCES]
        yield [terminal.bold(one_line(table.title)), *rows]
    remedy = report.findings[0].remedy
    if remedy:
        yield [terminal.bold("What to do"), *terminal.indented(remedy)]


def _head(cause: Cause, terminal: StyledTerminal) -> list[str]:
    """Place and line of the cause, its class, and how sure that is."""
    place = one_line(cause.place.where)
    text = clip(one_line(cause.place.message), _CAUSE_ROWS * (terminal.width - 2))
    rows = wrap(text, terminal.width, first="  ", rest="  ", breakable=True)[:_CAUSE_ROWS]
    title = one_line(cause.title)
    sure = f"{percent(round(cause.confidence or 0.0, 2))} sure, {one_line(cause.likelihood)}"
    about = f"{terminal.paint(title, 'bold red')}  {terminal.dim(sure)}"
    lines = [f"{terminal.path(place)}  {about}"]
    # A path is never broken: it is copied.
    if widest([f"{place}  {title}  {sure}"]) > terminal.width:
        lines = [terminal.path(place), about]
    return [*lines, *(terminal.bold(each) for each in rows)]


def _excerpt(excerpt: LogLines, terminal: StyledTerminal) -> list[str]:
    """Numbered lines, one row each; `> ` stands before the cause."""
    lines = []
    for mark, number, text in numbered(excerpt, _AFTER):
        line = clip(f"  {mark} {number} │ {text}", terminal.width).rstrip()
        lines.append(terminal.bold(line) if mark == ">" else terminal.dim(line))
    return lines


def _consequences(cause: Cause, terminal: StyledTerminal) -> list[str]:
    lines = [terminal.bold("What followed from it")]
    shown = cause.consequences[:_CONSEQUENCES]
    # The name of the cause's own log stands above already.
    places = [
        f"line {each.line}" if each.file == cause.place.file else one_line(each.where)
        for each in shown
    ]
    column = min(widest(places), _PLACE_CELLS)
    for place, each in zip(places, shown, strict=True):
        cells = max(column, widest([place]))
        text = clip(one_line(each.message), max(terminal.width - 4 - cells, 20))
        lines.append(f"  {terminal.path(place)}{' ' * (cells - widest([place]))}  {text}")
    return lines

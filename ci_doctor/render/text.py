# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> text for a terminal: the verdict first, then findings and tables in columns."""

from collections.abc import Callable, Iterator

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Attachment, Attempt, Failure
from ci_doctor.model.report import Report
from ci_doctor.model.table import Table
from ci_doctor.render.figures import duration, is_sentence, place
from ci_doctor.render.headline import Tone, headline, symbol, tone, worst_first
from ci_doctor.render.layout import clip, pad, widest, wrap
from ci_doctor.render.safe_text import cleaned, one_line
from ci_doctor.render.table_layout import table_lines

# Style names of rich, all of them from the terminal's own palette.
_TONES = {Tone.SUCCESS: "bold green", Tone.WARNING: "bold yellow", Tone.ERROR: "bold red"}
_SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_EVIDENCE_SHOWN = 4
_EXCERPT_LINES = 10
_EXCERPT_CELLS = 400  # of one line: four to six rows of a terminal
_ATTEMPTS_SHOWN = 20

Paint = Callable[[str, str], str]


def render(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """`report` for a terminal of `width` cells, with ANSI colours if `colour`.

    Commands, remedies and paths stand on one line however long they are, so that they can be
    copied; all other text is broken between words. Ends with a newline. A pass without findings
    leaves out how it was done.
    """
    report = cleaned(report)
    paint = _painter(colour=colour)
    blocks = ["\n".join(block) for block in _blocks(report, width, paint)]
    return "\n\n".join(blocks) + "\n"


def _painter(*, colour: bool) -> Paint:
    if not colour:
        return lambda text, _style: text
    # rich.style alone is 4 ms to import; rich.console would be 20.
    from rich.color import ColorSystem
    from rich.style import Style

    return lambda text, style: Style.parse(style).render(text, color_system=ColorSystem.STANDARD)


def _blocks(report: Report, width: int, paint: Paint) -> Iterator[list[str]]:
    """The parts of the text; an empty line is between them."""
    yield _head(report, width, paint)
    for table in report.tables:
        yield _table(table, width, paint)
    for finding in worst_first(report):
        yield _finding(finding, width, paint)
    if report.findings or tone(report) not in {Tone.SUCCESS, Tone.INFO}:
        if report.attempts:
            yield _attempts(report.attempts, width, paint)
        if report.attachments:
            yield _attachments(report.attachments, paint)
        if report.reproduce is not None:
            yield _reproduce(report.reproduce, width, paint)
    if report.exit_code:
        yield [paint(f"exit code {report.exit_code}", "dim")]


def _head(report: Report, width: int, paint: Paint) -> list[str]:
    head = headline(report)
    if head is None:
        return wrap(report.summary, width)
    about = f"{one_line(report.command)}  {duration(report.duration_s)}"
    mark = paint(f"{head.symbol} {head.word}", _TONES[head.tone])
    lines = [f"{mark}  {paint(about, 'dim')}"]
    error = report.error
    if error is not None:
        lines += _error(error, width, paint)
    if error is None or report.summary != error.message:
        lines += wrap(report.summary, width, first="  ", rest="  ")
    if error is not None and error.detail:
        lines.append("")
        lines += _indented(error.detail.rstrip().split("\n"), "  ")
    return lines


def _error(error: Failure, width: int, paint: Paint) -> list[str]:
    lines = wrap(error.message, width, first="  ", rest="  ")
    if error.hint:
        hint, *more = wrap(error.hint, width, first="  hint: ", rest="        ")
        # Painted after the wrap: an escape sequence has no width on the terminal.
        lines.append(hint.replace("hint:", paint("hint:", "bold"), 1))
        lines += more
    return lines


def _table(table: Table, width: int, paint: Paint) -> list[str]:
    return [paint(one_line(table.title), "bold"), *table_lines(table, width)]


def _finding(finding: Finding, width: int, paint: Paint) -> list[str]:
    style = _SEVERITIES[finding.severity]
    mark = paint(symbol(finding.severity), f"bold {style}")
    sentence, *more = wrap(finding.summary, width, first="  ", rest="  ")
    lines = [f"{mark} {paint(sentence[2:], 'bold')}"]
    lines += ["  " + paint(line[2:], "bold") for line in more]
    rule = paint(f" · {one_line(finding.rule)}", "dim")
    lines.append(f"  {paint(finding.severity, style)}{rule}")
    for evidence in finding.evidence[:_EVIDENCE_SHOWN]:
        lines += _evidence(evidence, width, paint)
    missing = len(finding.evidence) - _EVIDENCE_SHOWN
    if missing > 0:
        lines.append(paint(f"  … and {missing} more places", "dim"))
    if finding.remedy:
        lines += _command("try:", finding.remedy, width, paint)
    return lines


def _evidence(evidence: Evidence, width: int, paint: Paint) -> list[str]:
    lines = []
    where = place(evidence)
    if where:
        lines.append(f"  {paint(one_line(where), 'cyan')}")
    if evidence.excerpt is None:
        return lines
    bar = f"  {paint('│', 'dim')} "
    excerpt = evidence.excerpt.strip("\n").split("\n")
    for line in excerpt[:_EXCERPT_LINES]:
        shown = clip(line, _EXCERPT_CELLS)
        rows = wrap(shown, width, first="    ", rest="      ", breakable=True)
        lines += [(bar + row[4:]).rstrip() for row in rows]
    missing = len(excerpt) - _EXCERPT_LINES
    if missing > 0:
        lines.append(bar + paint(f"… {missing} more lines", "dim"))
    return lines


def _command(label: str, text: str, width: int, paint: Paint) -> list[str]:
    """`text` after `label`: a sentence is wrapped; a command keeps its lines.

    A command of several lines stands below the label.
    """
    start = f"  {label}"
    painted = f"  {paint(label, 'bold')}"
    if is_sentence(text):
        line, *more = wrap(text, width, first=f"{start} ", rest=" " * (len(start) + 1))
        return [painted + line[len(start) :], *more]
    lines = text.strip("\n").split("\n")
    if len(lines) == 1 and widest(lines) + len(start) < width:
        return [f"{painted} {lines[0]}"]
    return [painted, *_indented(lines, "    ")]


def _indented(lines: list[str], indent: str) -> list[str]:
    return [f"{indent}{line}".rstrip() for line in lines]


def _attempts(attempts: tuple[Attempt, ...], width: int, paint: Paint) -> list[str]:
    shown = attempts[:_ATTEMPTS_SHOWN]
    names = [one_line(attempt.name) for attempt in shown]
    times = [duration(attempt.duration_s) for attempt in shown]
    name_cells = widest(names)
    time_cells = widest(times)
    lines = [paint("Attempts", "bold")]
    for attempt, name, time in zip(shown, names, times, strict=True):
        head = f"{pad(name, name_cells)}  {time.rjust(time_cells)}  "
        lines += _attempt(attempt, head, width, paint)
    missing = len(attempts) - len(shown)
    if missing:
        lines.append(paint(f"  … and {missing} more in report.json", "dim"))
    return lines


def _attempt(attempt: Attempt, head: str, width: int, paint: Paint) -> list[str]:
    mark = "✓" if attempt.ok else "✗"
    style = "green" if attempt.ok else "red"
    column = " " * (4 + widest([head]))
    first, *more = wrap(one_line(attempt.outcome), width, first=f"  {mark} {head}", rest=column)
    lines = [f"  {paint(mark, style)}{first[3:]}", *more]
    if attempt.log and not attempt.ok:
        lines.append(column + paint(one_line(attempt.log), "cyan"))
    return lines


def _attachments(attachments: tuple[Attachment, ...], paint: Paint) -> list[str]:
    paths = [one_line(attachment.path) for attachment in attachments]
    column = widest(paths)
    lines = [paint("Attachments", "bold")]
    for path, attachment in zip(paths, attachments, strict=True):
        gap = " " * (column - widest([path]) + 2)
        lines.append(f"  {paint(path, 'cyan')}{gap}{one_line(attachment.title)}")
    return lines


def _reproduce(reproduce: str, width: int, paint: Paint) -> list[str]:
    # Always a command, backticks (a shell's own) included.
    lines = reproduce.strip("\n").split("\n")
    label = paint("reproduce:", "bold")
    if len(lines) == 1 and widest(lines) + len("reproduce: ") <= width:
        return [f"{label} {lines[0]}"]
    return [label, *lines]

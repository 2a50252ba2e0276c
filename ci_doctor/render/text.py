# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> text for a terminal: the verdict first, then findings and tables in columns."""

from collections.abc import Iterator

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Attachment, Attempt, Failure
from ci_doctor.model.report import Report
from ci_doctor.model.table import Table
from ci_doctor.render.figures import duration, is_sentence, place
from ci_doctor.render.headline import Tone, headline, symbol, tone, worst_first
from ci_doctor.render.layout import clip, pad, widest, wrap
from ci_doctor.render.safe_text import cleaned, one_line
from ci_doctor.render.styled_terminal import StyledTerminal
from ci_doctor.render.table_layout import table_lines

# Style names of rich, all of them from the terminal's own palette.
_TONES = {Tone.SUCCESS: "bold green", Tone.WARNING: "bold yellow", Tone.ERROR: "bold red"}
_SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_EVIDENCE_SHOWN = 4
_EXCERPT_LINES = 10
_EXCERPT_CELLS = 400  # of one line: four to six rows of a terminal
_ATTEMPTS_SHOWN = 20


def render(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """`report` for a terminal of `width` cells, with ANSI colours if `colour`.

    Commands, remedies and paths stand on one line however long they are, so that they can be
    copied; all other text is broken between words. Ends with a newline. A pass without findings
    leaves out how it was done.
    """
    terminal = StyledTerminal(width, colour=colour)
    blocks = ["\n".join(block) for block in _blocks(cleaned(report), terminal)]
    return "\n\n".join(blocks) + "\n"


def _blocks(report: Report, terminal: StyledTerminal) -> Iterator[list[str]]:
    """The parts of the text; an empty line is between them."""
    yield _head(report, terminal)
    for table in report.tables:
        yield _table(table, terminal)
    for finding in worst_first(report):
        yield _finding(finding, terminal)
    if report.findings or tone(report) not in {Tone.SUCCESS, Tone.INFO}:
        yield from _circumstances(report, terminal)
    if report.exit_code:
        yield [terminal.dim(f"exit code {report.exit_code}")]


def _circumstances(report: Report, terminal: StyledTerminal) -> Iterator[list[str]]:
    """What was tried, what lies in files, and how to do it again."""
    if report.attempts:
        yield _attempts(report.attempts, terminal)
    if report.attachments:
        yield _attachments(report.attachments, terminal)
    if report.reproduce is not None:
        yield _reproduce(report.reproduce, terminal)


def _head(report: Report, terminal: StyledTerminal) -> list[str]:
    head = headline(report)
    if head is None:
        return wrap(report.summary, terminal.width)
    mark = terminal.paint(f"{head.symbol} {head.word}", _TONES[head.tone])
    about = f"{one_line(report.command)}  {duration(report.duration_s)}"
    lines = [f"{mark}  {terminal.dim(about)}"]
    error = report.error
    if error is not None:
        lines += _error(error, terminal)
    # An error's own sentence is often the summary too: it is shown once.
    if error is None or report.summary != error.message:
        lines += terminal.indented(report.summary)
    if error is not None and error.detail:
        detail = error.detail.rstrip().split("\n")
        lines += ["", *_below(detail, "  ")]
    return lines


def _error(error: Failure, terminal: StyledTerminal) -> list[str]:
    lines = terminal.indented(error.message)
    if error.hint:
        lines += _sentence("hint:", error.hint, terminal)
    return lines


def _table(table: Table, terminal: StyledTerminal) -> list[str]:
    title = terminal.bold(one_line(table.title))
    return [title, *table_lines(table, terminal.width)]


def _finding(finding: Finding, terminal: StyledTerminal) -> list[str]:
    style = _SEVERITIES[finding.severity]
    mark = terminal.paint(symbol(finding.severity), f"bold {style}")
    sentence, *more = terminal.indented(finding.summary)
    lines = [f"{mark} {terminal.bold(sentence[2:])}"]
    lines += ["  " + terminal.bold(line[2:]) for line in more]
    severity = terminal.paint(finding.severity, style)
    rule = terminal.dim(f" · {one_line(finding.rule)}")
    lines.append(f"  {severity}{rule}")
    for evidence in finding.evidence[:_EVIDENCE_SHOWN]:
        lines += _evidence(evidence, terminal)
    missing = len(finding.evidence) - _EVIDENCE_SHOWN
    if missing > 0:
        lines.append(terminal.dim(f"  … and {missing} more places"))
    if finding.remedy:
        lines += _remedy(finding.remedy, terminal)
    return lines


def _evidence(evidence: Evidence, terminal: StyledTerminal) -> list[str]:
    lines = []
    where = place(evidence)
    if where:
        lines.append("  " + terminal.path(where))
    if evidence.excerpt is None:
        return lines
    bar = f"  {terminal.dim('│')} "
    excerpt = evidence.excerpt.strip("\n").split("\n")
    for line in excerpt[:_EXCERPT_LINES]:
        shown = clip(line, _EXCERPT_CELLS)
        # Breakable: a log's line may be one word, and nobody copies it.
        rows = wrap(shown, terminal.width, first="    ", rest="      ", breakable=True)
        lines += [(bar + row[4:]).rstrip() for row in rows]
    missing = len(excerpt) - _EXCERPT_LINES
    if missing > 0:
        lines.append(bar + terminal.dim(f"… {missing} more lines"))
    return lines


def _remedy(remedy: str, terminal: StyledTerminal) -> list[str]:
    """A sentence is wrapped; a command keeps its lines, and several stand below the label."""
    if is_sentence(remedy):
        return _sentence("try:", remedy, terminal)
    lines = remedy.strip("\n").split("\n")
    label = "  " + terminal.bold("try:")
    if len(lines) == 1 and widest(lines) + len("  try:") < terminal.width:
        return [f"{label} {lines[0]}"]
    return [label, *_below(lines, "    ")]


def _sentence(label: str, text: str, terminal: StyledTerminal) -> list[str]:
    """`text` after `label`, wrapped beside it."""
    start = f"  {label} "
    line, *more = wrap(text, terminal.width, first=start, rest=" " * len(start))
    painted = "  " + terminal.bold(label)
    return [painted + line[len(start) - 1 :], *more]


def _below(lines: list[str], indent: str) -> list[str]:
    return [(indent + line).rstrip() for line in lines]


def _attempts(attempts: tuple[Attempt, ...], terminal: StyledTerminal) -> list[str]:
    shown = attempts[:_ATTEMPTS_SHOWN]
    names = [one_line(attempt.name) for attempt in shown]
    times = [duration(attempt.duration_s) for attempt in shown]
    name_cells = widest(names)
    time_cells = widest(times)
    lines = [terminal.bold("Attempts")]
    for attempt, name, time in zip(shown, names, times, strict=True):
        head = f"{pad(name, name_cells)}  {time.rjust(time_cells)}  "
        lines += _attempt(attempt, head, terminal)
    missing = len(attempts) - len(shown)
    if missing:
        lines.append(terminal.dim(f"  … and {missing} more in report.json"))
    return lines


def _attempt(attempt: Attempt, head: str, terminal: StyledTerminal) -> list[str]:
    mark = "✓" if attempt.ok else "✗"
    style = "green" if attempt.ok else "red"
    outcome = one_line(attempt.outcome)
    column = " " * (4 + widest([head]))
    first, *more = wrap(outcome, terminal.width, first=f"  {mark} {head}", rest=column)
    lines = [f"  {terminal.paint(mark, style)}{first[3:]}", *more]
    if attempt.log and not attempt.ok:
        lines.append(column + terminal.path(attempt.log))
    return lines


def _attachments(attachments: tuple[Attachment, ...], terminal: StyledTerminal) -> list[str]:
    paths = [one_line(attachment.path) for attachment in attachments]
    column = widest(paths)
    lines = [terminal.bold("Attachments")]
    for path, attachment in zip(paths, attachments, strict=True):
        gap = " " * (column - widest([path]) + 2)
        lines.append(f"  {terminal.path(path)}{gap}{one_line(attachment.title)}")
    return lines


def _reproduce(reproduce: str, terminal: StyledTerminal) -> list[str]:
    # Always a command, backticks (a shell's own) included.
    lines = reproduce.strip("\n").split("\n")
    label = terminal.bold("reproduce:")
    if len(lines) == 1 and widest(lines) + len("reproduce: ") <= terminal.width:
        return [f"{label} {lines[0]}"]
    return [label, *lines]

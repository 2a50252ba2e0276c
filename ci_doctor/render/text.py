# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> text for a terminal: the verdict first, then findings and tables in columns."""

from collections.abc import Iterator

from msgspec.structs import replace

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Attachment, Attempt, Failure, Report
from ci_doctor.model.table import Cell, Row, Table
from ci_doctor.model.words import shortened
from ci_doctor.render.diagnosis_screen import diagnosis_blocks
from ci_doctor.render.formatting import duration, place
from ci_doctor.render.headline import Headline, Tone, headline, symbol, tone, worst_first
from ci_doctor.render.layout import StyledTerminal, clip, pad, table_lines, widest, wrap
from ci_doctor.render.lint_screen import is_lint, lint_blocks
from ci_doctor.render.safe_text import cleaned, one_line

_SENTENCE = 2_000
_NAME = 500  # a label, a branch, a path


def bounded(report: Report) -> Report:
    """`report` with sentences of at most 2,000 characters, and names of at most 500.

    Commands and details stay whole: half a command is one that nobody may run.
    """
    return replace(
        report,
        command=shortened(report.command, _NAME),
        summary=shortened(report.summary, _SENTENCE),
        error=None if report.error is None else _short_error(report.error),
        findings=tuple(map(_short_finding, report.findings)),
        tables=tuple(map(_short_table, report.tables)),
        attempts=tuple(map(_short_attempt, report.attempts)),
        attachments=tuple(map(_attachment, report.attachments)),
    )


def _short_error(error: Failure) -> Failure:
    hint = None if error.hint is None else shortened(error.hint, _SENTENCE)
    return replace(error, message=shortened(error.message, _SENTENCE), hint=hint)


def _short_finding(finding: Finding) -> Finding:
    evidence = tuple(
        each if each.file is None else replace(each, file=shortened(each.file, _NAME))
        for each in finding.evidence
    )
    return replace(finding, summary=shortened(finding.summary, _SENTENCE), evidence=evidence)


def _short_table(table: Table) -> Table:
    columns = tuple(shortened(name, _NAME) for name in table.columns)
    title = shortened(table.title, _NAME)
    return replace(table, title=title, columns=columns, rows=tuple(map(_row, table.rows)))


def _row(row: Row) -> Row:
    # One without cells is a paragraph.
    most = _NAME if row.cells else _SENTENCE
    return replace(row, label=shortened(row.label, most), cells=tuple(map(_cell, row.cells)))


def _cell(cell: Cell) -> Cell:
    if not isinstance(cell.value, str):
        return cell
    return replace(cell, value=shortened(cell.value, _SENTENCE))


def _short_attempt(attempt: Attempt) -> Attempt:
    log = None if attempt.log is None else shortened(attempt.log, _NAME)
    name, outcome = shortened(attempt.name, _NAME), shortened(attempt.outcome, _SENTENCE)
    return replace(attempt, name=name, outcome=outcome, log=log)


def _attachment(attachment: Attachment) -> Attachment:
    path, title = shortened(attachment.path, _NAME), shortened(attachment.title, _NAME)
    return replace(attachment, path=path, title=title)


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


# Style names of rich, all of them from the terminal's own palette.
_TONES = {Tone.SUCCESS: "bold green", Tone.WARNING: "bold yellow", Tone.ERROR: "bold red"}
_SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_EVIDENCE_SHOWN = 4
_EXCERPT_LINES = 10
_EXCERPT_CELLS = 400  # of one line: four to six rows of a terminal


def render(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """`report` for a terminal of `width` cells, with ANSI colours if `colour`.

    Commands, remedies and paths stand on one line however long they are, so that they can be
    copied; all other text is broken between words. Ends with a newline. A pass without findings
    leaves out how it was done.
    """
    terminal = StyledTerminal(width, colour=colour)
    blocks = []
    # Cleaned once and first: an escape sequence in a log must neither act nor count as cells.
    for lines in _blocks(bounded(cleaned(replace(report, cases=()))), terminal):  # it shows no case
        block = "\n".join(lines)
        blocks.append(block)
    return "\n\n".join(blocks) + "\n"


def _blocks(report: Report, terminal: StyledTerminal) -> Iterator[list[str]]:
    """The parts of the text; an empty line is between them."""
    findings = worst_first(report)
    diagnosed = list(diagnosis_blocks(report, terminal))
    if diagnosed:
        yield from diagnosed
        # They show the first one, with its tables.
        findings = list(report.findings[1:])
    else:
        yield _head(report, terminal)
        yield from _tables(report, terminal, asides=False)
    if is_lint(report):
        yield from lint_blocks(report, terminal)
        findings = []
    for finding in findings:
        yield _finding(finding, terminal)
    if not diagnosed:
        yield from _tables(report, terminal, asides=True)
    is_calm = tone(report) in {Tone.SUCCESS, Tone.INFO}
    if not diagnosed and (report.findings or not is_calm):
        yield from _circumstances(report, terminal)
    if report.exit_code:
        yield [terminal.dim(f"exit code {report.exit_code}")]


def _tables(report: Report, terminal: StyledTerminal, *, asides: bool) -> Iterator[list[str]]:
    """Those that stand above the findings, or the `asides` below them."""
    for table in report.tables:
        if table.is_aside is asides:
            yield _table(table, terminal)


def _circumstances(report: Report, terminal: StyledTerminal) -> Iterator[list[str]]:
    """What was tried, what lies in files, and how to do it again."""
    if report.attempts:
        yield attempt_lines(report.attempts, terminal)
    if report.attachments:
        yield _attachments(report.attachments, terminal)
    if report.reproduce is not None:
        yield _reproduce(report.reproduce, terminal)


def _head(report: Report, terminal: StyledTerminal) -> list[str]:
    """The verdict, and below it what happened; the summary alone if nothing was judged."""
    head = headline(report)
    if head is None:
        return wrap(report.summary, terminal.width)
    verdict = _verdict(head, report, terminal)
    lines = [verdict]
    if report.error is None:
        lines += terminal.indented(report.summary)
    else:
        lines += _error(report.error, report.summary, terminal)
    return lines


def _verdict(head: Headline, report: Report, terminal: StyledTerminal) -> str:
    """`✗ REGRESSION  correctness run  3 min 12 s`."""
    verdict = f"{head.symbol} {head.word}"
    mark = terminal.paint(verdict, _TONES[head.tone])
    command = one_line(report.command)
    time = duration(report.duration_s)
    about = terminal.dim(f"{command}  {time}")
    return f"{mark}  {about}"


def _error(error: Failure, summary: str, terminal: StyledTerminal) -> list[str]:
    """The error with its hint, the report's `summary`, and the error's detail as it is."""
    lines = terminal.indented(error.message)
    if error.hint:
        lines += _sentence("hint:", error.hint, terminal)
    # An error's own sentence is often the summary too: it is shown once.
    if summary != error.message:
        lines += terminal.indented(summary)
    if error.detail:
        detail = error.detail.rstrip().split("\n")
        lines.append("")
        lines += _below(detail, "  ")
    return lines


def _table(table: Table, terminal: StyledTerminal) -> list[str]:
    """The title and the rows; without colours only the indent of the rows sets them apart."""
    name = one_line(table.title)
    title = terminal.bold(name)
    rows = table_lines(table, terminal.width)
    return [title, *rows]


def _finding(finding: Finding, terminal: StyledTerminal) -> list[str]:
    """What is wrong, by which rule, where it shows, and what to do about it.

    Of the evidence only the first pieces: all of it is in report.json.
    """
    style = _SEVERITIES[finding.severity]
    lines = _sentence_of(finding, style, terminal)
    severity = terminal.paint(finding.severity, style)
    rule = one_line(finding.rule)
    meaning = terminal.dim(f" · {rule}")
    lines.append(f"  {severity}{meaning}")
    for evidence in finding.evidence[:_EVIDENCE_SHOWN]:
        lines += _evidence(evidence, terminal)
    missing = len(finding.evidence) - _EVIDENCE_SHOWN
    if missing > 0:
        note = f"  … and {missing} more places"
        lines.append(terminal.dim(note))
    if finding.remedy:
        lines += _remedy(finding, finding.remedy, terminal)
    return lines


def _sentence_of(finding: Finding, style: str, terminal: StyledTerminal) -> list[str]:
    """The mark and the summary of `finding`; only the mark has the colour of its severity."""
    sign = symbol(finding.severity)
    mark = terminal.paint(sign, f"bold {style}")
    # Wrapped with the indent, so that the mark takes the place of its two spaces.
    first, *more = terminal.indented(finding.summary)
    sentence = terminal.bold(first[2:])
    lines = [f"{mark} {sentence}"]
    for line in more:
        words = terminal.bold(line[2:])
        lines.append(f"  {words}")
    return lines


def _evidence(evidence: Evidence, terminal: StyledTerminal) -> list[str]:
    """Where it is, as far as it is in a file, and the lines there."""
    lines = []
    where = place(evidence)
    if where:
        path = terminal.path(where)
        lines.append(f"  {path}")
    if evidence.excerpt is not None:
        excerpt = evidence.excerpt.strip("\n").split("\n")
        lines += _excerpt(excerpt, terminal)
    return lines


def _excerpt(excerpt: list[str], terminal: StyledTerminal) -> list[str]:
    """The first lines of `excerpt` behind a bar, and how many are missing."""
    mark = terminal.dim("│")
    bar = f"  {mark} "
    lines = []
    for line in excerpt[:_EXCERPT_LINES]:
        shown = clip(line, _EXCERPT_CELLS)
        # Breakable: a log's line may be one word, and nobody copies it.
        rows = wrap(shown, terminal.width, first="    ", rest="      ", breakable=True)
        for row in rows:
            # The bar has four cells, as the indent that the row was wrapped with.
            beside = bar + row[4:]
            lines.append(beside.rstrip())
    missing = len(excerpt) - _EXCERPT_LINES
    if missing > 0:
        note = terminal.dim(f"… {missing} more lines")
        lines.append(bar + note)
    return lines


def _remedy(finding: Finding, remedy: str, terminal: StyledTerminal) -> list[str]:
    """A sentence is wrapped; a command keeps its lines, and several stand below the label."""
    if finding.is_advice:
        return _sentence("try:", remedy, terminal)
    lines = remedy.strip("\n").split("\n")
    word = terminal.bold("try:")
    label = f"  {word}"
    cells = len("  try: ") + widest(lines)

    if len(lines) == 1 and cells <= terminal.width:
        return [f"{label} {lines[0]}"]
    below = _below(lines, "    ")
    return [label, *below]


def _sentence(label: str, text: str, terminal: StyledTerminal) -> list[str]:
    """`text` after `label`, wrapped beside it."""
    start = f"  {label} "
    column = " " * len(start)
    line, *more = wrap(text, terminal.width, first=start, rest=column)
    # Wrapped with the plain label, painted after it: an escape sequence takes no cells.
    beside = line[len(start) - 1 :]
    painted = terminal.bold(label)
    return [f"  {painted}{beside}", *more]


def _below(lines: list[str], indent: str) -> list[str]:
    """`lines` below their label; an empty one gets no spaces at its end."""
    indented = []
    for line in lines:
        whole = indent + line
        indented.append(whole.rstrip())
    return indented


def _attachments(attachments: tuple[Attachment, ...], terminal: StyledTerminal) -> list[str]:
    """The files and their titles in two columns."""
    paths = [one_line(attachment.path) for attachment in attachments]
    column = widest(paths) + 2
    lines = [terminal.bold("Attachments")]
    for path, attachment in zip(paths, attachments, strict=True):
        cells = widest([path])
        gap = " " * (column - cells)
        title = one_line(attachment.title)
        painted = terminal.path(path)
        lines.append(f"  {painted}{gap}{title}")
    return lines


def _reproduce(reproduce: str, terminal: StyledTerminal) -> list[str]:
    """The command beside its label, or below it at the left if it does not fit."""
    # Always a command, backticks (a shell's own) included.
    lines = reproduce.strip("\n").split("\n")
    label = terminal.bold("reproduce:")
    cells = len("reproduce: ") + widest(lines)
    if len(lines) == 1 and cells <= terminal.width:
        return [f"{label} {lines[0]}"]
    return [label, *lines]

# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> text for a terminal: the verdict first, then findings and tables in columns; a diagnosis in a screen."""

from collections.abc import Iterator

import msgspec
from msgspec import structs
from msgspec.structs import replace

from ci_doctor.decodable import decodable
from ci_doctor.model.cause import Cause
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.model.facts.history import HISTORY_TITLE
from ci_doctor.model.outcome import Attempt, Finding, Report, Severity, Verdict
from ci_doctor.render.formatting import (
    Tone,
    amount,
    cleaned,
    duration,
    errors,
    headline,
    numbered,
    one_line,
    percent,
    place,
    printable,
    symbol,
    tone,
    worst_first,
)
from ci_doctor.render.layout import StyledTerminal, clip, pad, table_lines, widest, wrap
from ci_doctor.render.lint_report import is_lint, lint_blocks

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
    yield _cause_head(cause, terminal)
    if excerpt is not None:
        yield _numbered(excerpt, terminal)
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
    yield [f"{terminal.bold('Begin at')} {terminal.path(place)}", *_numbered(excerpt, terminal)]
    for table in report.tables:
        rows = table_lines(table, terminal.width, breakable=terminal.has_edge)[:_CONSEQUENCES]
        yield [terminal.bold(one_line(table.title)), *rows]
    remedy = report.findings[0].remedy
    if remedy:
        yield [terminal.bold("What to do"), *terminal.indented(remedy)]


def _cause_head(cause: Cause, terminal: StyledTerminal) -> list[str]:
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


def _numbered(excerpt: LogLines, terminal: StyledTerminal) -> list[str]:
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
    for where, each in zip(places, shown, strict=True):
        cells = max(column, widest([where]))
        text = clip(one_line(each.message), max(terminal.width - 4 - cells, 20))
        lines.append(f"  {terminal.path(where)}{' ' * (cells - widest([where]))}  {text}")
    return lines


# --- report -> text for a terminal: the verdict first, then findings and tables in columns ---


# Style names of rich, all of them from the terminal's own palette.
_TONES = {Tone.SUCCESS: "bold green", Tone.WARNING: "bold yellow", Tone.ERROR: "bold red"}
_SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_ATTEMPTS_SHOWN = 20
_EVIDENCE_SHOWN = 4
_EXCERPT_LINES = 10
_EXCERPT_CELLS = 400  # of one line: four to six rows of a terminal


def render(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    has_edge: bool = False,
    page: str | None = None,
) -> str:
    """`report` for a terminal of `width` cells, with ANSI colours if `colour`.

    Commands, remedies and paths stand on one line however long they are, so that they can be
    copied; all other text is broken between words. Ends with a newline. A pass without errors
    leaves out how it was done. has_edge: as of StyledTerminal. page: where the report lies, for
    the last line.
    """
    terminal = StyledTerminal(width, colour=colour, has_edge=has_edge)
    # Cleaned once and first: an escape sequence in a log must neither act nor count as cells.
    shown = cleaned(replace(report, cases=()))  # it shows no case
    blocks = list(_blocks(shown, terminal))
    end = [terminal.dim(f"exit code {report.exit_code}")] if report.exit_code else []
    if page is not None:
        end.append(f"{terminal.bold('report:')} {terminal.paint(one_line(page), 'cyan')}")
    return "\n\n".join("\n".join(lines) for lines in [*blocks, end] if lines) + "\n"


def render_preparation(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    has_edge: bool = False,
    page: str | None = None,
) -> str:
    """As `render`, but of a pass only a sentence and its warnings: the verdict of interest comes after it."""
    if report.verdict is not Verdict.PASS or report.error is not None:
        return render(report, width=width, colour=colour, has_edge=has_edge, page=page)
    terminal = StyledTerminal(width, colour=colour)
    shown = cleaned(replace(report, cases=()))
    sentence = f"ci-doctor: {shown.summary} (`ci-doctor {shown.command} --dry-run` shows why)"
    warnings = [each for each in shown.findings if each.severity is not Severity.NOTE]
    blocks = [wrap(sentence, width, rest="  ")]
    blocks += [_finding(each, terminal) for each in warnings]
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def _blocks(report: Report, terminal: StyledTerminal) -> Iterator[list[str]]:
    """The parts of the text; an empty line is between them."""
    diagnosed = list(diagnosis_blocks(report, terminal))
    if diagnosed:
        yield from diagnosed
        # They show the first one, with its tables.
        findings = list(report.findings[1:])
    else:
        yield _head(report, terminal)
        yield from _tables(report, terminal, asides=False)
        findings = worst_first(report)
    if is_lint(report):
        yield from lint_blocks(report, terminal)
        findings = []
    for finding in findings:
        yield _finding(finding, terminal)
    if not diagnosed:
        yield from _tables(report, terminal, asides=True)
        is_calm = tone(report) is Tone.SUCCESS and not errors(report)
        if not is_calm and (report.findings or tone(report) is not Tone.INFO):
            yield from _circumstances(report, terminal)


def _tables(report: Report, terminal: StyledTerminal, *, asides: bool) -> Iterator[list[str]]:
    """Those that stand above the findings, or the `asides` below them.

    Without colours only the indent of the rows sets them apart from the title.
    """
    is_green = tone(report) is Tone.SUCCESS
    for table in report.tables:
        if table.is_aside is asides and not (table.is_detail and is_green):
            lines = table_lines(table, terminal.width, breakable=terminal.has_edge)
            yield [terminal.bold(one_line(table.title)), *lines]


def _circumstances(report: Report, terminal: StyledTerminal) -> Iterator[list[str]]:
    """What was tried, what lies in files, and how to do it again."""
    if report.attempts:
        yield _attempts(report.attempts, terminal)
    if report.attachments:
        paths = [one_line(attachment.path) for attachment in report.attachments]
        column = widest(paths) + 2
        lines = [terminal.bold("Attachments")]
        for path, attachment in zip(paths, report.attachments, strict=True):
            gap = " " * (column - widest([path]))
            lines.append(f"  {terminal.path(path)}{gap}{one_line(attachment.title)}")
        yield lines
    if report.reproduce is not None:
        # Always a command, backticks (a shell's own) included.
        yield _command("reproduce:", report.reproduce, "", terminal)


def _attempts(attempts: tuple[Attempt, ...], terminal: StyledTerminal) -> list[str]:
    """The attempts in columns, the earliest first; the log only of one that did not pass."""
    shown = attempts[:_ATTEMPTS_SHOWN]
    names = [one_line(attempt.name) for attempt in shown]
    times = [duration(attempt.duration_s) for attempt in shown]
    lines = [terminal.bold("Attempts")]
    for attempt, name, time in zip(shown, names, times, strict=True):
        mark, style = ("✓", "green") if attempt.ok else ("✗", "red")
        # A duration is ASCII: a character of it is a cell.
        start = f"  {mark} {pad(name, widest(names))}  {time:>{widest(times)}}  "
        column = " " * widest([start])
        first, *more = wrap(one_line(attempt.outcome), terminal.width, first=start, rest=column)
        lines += [f"  {terminal.paint(mark, style)}{first[3:]}", *more]
        if attempt.log and not attempt.ok:
            lines.append(column + terminal.path(attempt.log))
    if len(attempts) > len(shown):
        lines.append(terminal.dim(f"  … and {len(attempts) - len(shown)} more in report.json"))
    return lines


def _head(report: Report, terminal: StyledTerminal) -> list[str]:
    """`✗ REGRESSION  correctness run  3 min 12 s`, and below it what happened.

    The summary alone if nothing was judged. Of an error the hint, and its detail as it is.
    """
    head = headline(report)
    if head is None:
        return wrap(report.summary, terminal.width)
    mark = terminal.paint(f"{head.symbol} {head.word}", _TONES[head.tone])
    about = terminal.dim(f"{one_line(report.command)}  {duration(report.duration_s)}")
    lines = [f"{mark}  {about}"]
    error = report.error
    if error is None:
        return [*lines, *terminal.indented(report.summary)]
    lines += terminal.indented(error.message)
    if error.hint:
        lines += _sentence("hint:", error.hint, terminal)
    # An error's own sentence is often the summary too: it is shown once.
    if report.summary != error.message:
        lines += terminal.indented(report.summary)
    if error.detail:
        lines += ["", *_below(error.detail.rstrip().split("\n"), "  ")]
    return lines


def _finding(finding: Finding, terminal: StyledTerminal) -> list[str]:
    """What is wrong, by which rule, where it shows, and what to do about it.

    Of the evidence only the first pieces: all of it is in report.json. Only the mark has the colour of the
    severity.
    """
    style = _SEVERITIES[finding.severity]
    mark = terminal.paint(symbol(finding.severity), f"bold {style}")
    # Wrapped with the indent, so that the mark takes the place of its two spaces.
    first, *more = terminal.indented(finding.summary)
    lines = [f"{mark} {terminal.bold(first[2:])}"]
    lines += [f"  {terminal.bold(line[2:])}" for line in more]
    severity = terminal.paint(finding.severity, style)
    lines.append(f"  {severity}{terminal.dim(f' · {one_line(finding.rule)}')}")
    for evidence in finding.evidence[:_EVIDENCE_SHOWN]:
        where = place(evidence)
        if where:
            lines.append(f"  {terminal.path(where)}")
        if evidence.excerpt is not None:
            lines += _excerpt(evidence.excerpt.strip("\n").split("\n"), terminal)
    missing = len(finding.evidence) - _EVIDENCE_SHOWN
    if missing > 0:
        lines.append(terminal.dim(f"  … and {amount(missing, 'more place')}"))
    if finding.remedy and finding.is_advice:
        lines += _sentence("try:", finding.remedy, terminal)
    elif finding.remedy:
        lines += _command("try:", finding.remedy, "  ", terminal)
    return lines


def _excerpt(excerpt: list[str], terminal: StyledTerminal) -> list[str]:
    """The first lines of `excerpt` behind a bar, and how many are missing."""
    bar = f"  {terminal.dim('│')} "
    lines = []
    # One line more stands where its absence would be said: a list of ten ends with what it left out.
    most = _EXCERPT_LINES + (len(excerpt) == _EXCERPT_LINES + 1)
    for line in excerpt[:most]:
        shown = clip(line, _EXCERPT_CELLS)
        # Breakable: a log's line may be one word, and nobody copies it.
        rows = wrap(shown, terminal.width, first="    ", rest="      ", breakable=True)
        # The bar has four cells, as the indent that the row was wrapped with.
        lines += [(bar + row[4:]).rstrip() for row in rows]
    missing = len(excerpt) - most
    if missing > 0:
        lines.append(bar + terminal.dim(f"… {missing} more lines"))
    return lines


def _sentence(label: str, text: str, terminal: StyledTerminal) -> list[str]:
    """`text` after `label`, wrapped beside it."""
    start = f"  {label} "
    line, *more = wrap(text, terminal.width, first=start, rest=" " * len(start))
    # Wrapped with the plain label, painted after it: an escape sequence takes no cells.
    return [f"  {terminal.bold(label)}{line[len(start) - 1 :]}", *more]


def _command(label: str, command: str, indent: str, terminal: StyledTerminal) -> list[str]:
    """A command beside its label; below it if it does not fit, and if it has several lines, which it keeps."""
    lines = command.strip("\n").split("\n")
    painted = indent + terminal.bold(label)
    if len(lines) == 1 and widest([f"{indent}{label} {lines[0]}"]) <= terminal.width:
        return [f"{painted} {lines[0]}"]
    return [painted, *_below(lines, indent * 2)]


def _below(lines: list[str], indent: str) -> list[str]:
    """`lines` below their label; an empty one gets no spaces at its end."""
    return [(indent + line).rstrip() for line in lines]

# SPDX-License-Identifier: Apache-2.0
"""Report -> text for a terminal: the verdict first, then what a person wants to know, in calm columns."""

from collections.abc import Callable

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Attempt, Failure
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
    """`report` for a terminal of `width` cells, with ANSI colours where `colour`.

    Commands, remedies and paths stand on one line however long they are, so that they can be copied; all other text is
    broken between words. Ends with a newline. A pass without findings leaves out how it was done.
    """
    report = cleaned(report)
    paint = _painter(colour=colour)
    blocks = [_head(report, width, paint)]
    blocks += [_table(table, width, paint) for table in report.tables]
    blocks += [_finding(finding, width, paint) for finding in worst_first(report)]
    if tone(report) not in {Tone.SUCCESS, Tone.INFO} or report.findings:
        blocks += [
            _attempts(report, width, paint),
            _attachments(report, paint),
            _reproduce(report, width, paint),
        ]
    if report.exit_code:
        blocks.append([paint(f"exit code {report.exit_code}", "dim")])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _painter(*, colour: bool) -> Paint:
    if not colour:
        return lambda text, _style: text
    # rich.style alone is 4 ms to import; rich.console would be 20.
    from rich.color import ColorSystem
    from rich.style import Style

    return lambda text, style: Style.parse(style).render(text, color_system=ColorSystem.STANDARD)


def _head(report: Report, width: int, paint: Paint) -> list[str]:
    head = headline(report)
    if head is None:
        return wrap(report.summary, width)
    about = f"{one_line(report.command)}  {duration(report.duration_s)}"
    mark = paint(f"{head.symbol} {head.word}", _TONES[head.tone])
    lines = [f"{mark}  {paint(about, 'dim')}"]
    if report.error is not None:
        lines += _error(report.error, width, paint)
    if report.error is None or report.summary != report.error.message:
        lines += wrap(report.summary, width, first="  ", rest="  ")
    if report.error is not None and report.error.detail:
        detail = report.error.detail.rstrip().split("\n")
        lines += ["", *(f"  {line}".rstrip() for line in detail)]
    return lines


def _error(error: Failure, width: int, paint: Paint) -> list[str]:
    lines = wrap(error.message, width, first="  ", rest="  ")
    if error.hint:
        hint, *more = wrap(error.hint, width, first="  hint: ", rest="        ")
        lines += [hint.replace("hint:", paint("hint:", "bold"), 1), *more]
    return lines


def _table(table: Table, width: int, paint: Paint) -> list[str]:
    return [paint(one_line(table.title), "bold"), *table_lines(table, width)]


def _finding(finding: Finding, width: int, paint: Paint) -> list[str]:
    style = _SEVERITIES[finding.severity]
    mark = symbol(finding.severity)
    sentence, *more = wrap(finding.summary, width, first="  ", rest="  ")
    lines = [f"{paint(mark, f'bold {style}')} {paint(sentence[2:], 'bold')}"]
    lines += ["  " + paint(line[2:], "bold") for line in more]
    lines.append(
        f"  {paint(finding.severity, style)}{paint(f' · {one_line(finding.rule)}', 'dim')}"
    )
    for evidence in finding.evidence[:_EVIDENCE_SHOWN]:
        lines += _evidence(evidence, width, paint)
    if len(finding.evidence) > _EVIDENCE_SHOWN:
        lines.append(paint(f"  … and {len(finding.evidence) - _EVIDENCE_SHOWN} more places", "dim"))
    if finding.remedy:
        lines += _command("try:", finding.remedy, width, paint)
    return lines


def _evidence(evidence: Evidence, width: int, paint: Paint) -> list[str]:
    where = place(evidence)
    lines = [f"  {paint(one_line(where), 'cyan')}"] if where else []
    if evidence.excerpt is None:
        return lines
    bar = f"  {paint('│', 'dim')} "
    excerpt = evidence.excerpt.strip("\n").split("\n")
    for line in excerpt[:_EXCERPT_LINES]:
        rows = wrap(clip(line, _EXCERPT_CELLS), width, first="    ", rest="      ", breakable=True)
        lines += [(bar + row[4:]).rstrip() for row in rows]
    if len(excerpt) > _EXCERPT_LINES:
        lines.append(bar + paint(f"… {len(excerpt) - _EXCERPT_LINES} more lines", "dim"))
    return lines


def _command(label: str, text: str, width: int, paint: Paint, *, indent: str = "  ") -> list[str]:
    """What follows `label`: a sentence is wrapped; a command keeps its lines, below the label where it has several."""
    start = indent + label
    if is_sentence(text):
        line, *more = wrap(text, width, first=f"{start} ", rest=" " * (len(start) + 1))
        return [line.replace(label, paint(label, "bold"), 1), *more]
    lines = text.strip("\n").split("\n")
    if len(lines) == 1 and widest(lines) + len(start) < width:
        return [f"{indent}{paint(label, 'bold')} {lines[0]}"]
    return [indent + paint(label, "bold"), *(f"{indent}  {line}".rstrip() for line in lines)]


def _attempts(report: Report, width: int, paint: Paint) -> list[str]:
    if not report.attempts:
        return []
    shown = report.attempts[:_ATTEMPTS_SHOWN]
    names = [one_line(attempt.name) for attempt in shown]
    times = [duration(attempt.duration_s) for attempt in shown]
    lines = [paint("Attempts", "bold")]
    for attempt, name, time in zip(shown, names, times, strict=True):
        head = f"{pad(name, widest(names))}  {' ' * (widest(times) - len(time))}{time}  "
        lines += _attempt(attempt, head, width, paint)
    if len(report.attempts) > len(shown):
        lines.append(
            paint(f"  … and {len(report.attempts) - len(shown)} more in report.json", "dim")
        )
    return lines


def _attempt(attempt: Attempt, head: str, width: int, paint: Paint) -> list[str]:
    mark, style = ("✓", "green") if attempt.ok else ("✗", "red")
    column = " " * (4 + widest([head]))
    first, *more = wrap(one_line(attempt.outcome), width, first=f"  {mark} {head}", rest=column)
    lines = [f"  {paint(mark, style)}{first[3:]}", *more]
    if attempt.log and not attempt.ok:
        lines.append(column + paint(one_line(attempt.log), "cyan"))
    return lines


def _attachments(report: Report, paint: Paint) -> list[str]:
    if not report.attachments:
        return []
    paths = [one_line(attachment.path) for attachment in report.attachments]
    lines = [
        f"  {paint(path, 'cyan')}{pad('', widest(paths) - widest([path]))}  {one_line(attachment.title)}"
        for path, attachment in zip(paths, report.attachments, strict=True)
    ]
    return [paint("Attachments", "bold"), *lines]


def _reproduce(report: Report, width: int, paint: Paint) -> list[str]:
    # Always a command, backticks (a shell's own) and all.
    if report.reproduce is None:
        return []
    lines = report.reproduce.strip("\n").split("\n")
    if len(lines) == 1 and widest(lines) + len("reproduce: ") <= width:
        return [f"{paint('reproduce:', 'bold')} {lines[0]}"]
    return [paint("reproduce:", "bold"), *lines]

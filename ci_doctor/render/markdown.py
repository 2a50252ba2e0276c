# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> Markdown for a Buildkite annotation, in a bounded number of bytes.

Its subset of CommonMark, GFM tables and HTML, and the limits:
https://buildkite.com/docs/agent/v3/cli-annotate
"""

import html
from collections.abc import Iterator
from enum import IntEnum
from pathlib import PurePosixPath

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Attachment, Attempt
from ci_doctor.model.report import Report
from ci_doctor.model.table import Row, Table
from ci_doctor.render.figures import duration, figure, is_plain_path, is_sentence, place, size
from ci_doctor.render.headline import headline, symbol, tone, worst_first
from ci_doctor.render.markup import code, fenced, fitted, summary
from ci_doctor.render.page import PagePiece, page
from ci_doctor.render.safe_text import cleaned, one_line

SMALLEST = 512
_BLOCK_CHARACTERS = 4000  # of one excerpt or remedy; the whole is in report.json
_HEAD_BYTES = 4000
_LINE_BYTES = 1000
_CELL_BYTES = 300
_LINKS = 10  # an annotation has no more of them: https://buildkite.com/docs/platform/limits


class _Part(IntEnum):
    """The parts of a page in the order they are read."""

    DETAIL = 1
    TABLE = 2
    FINDING = 3
    ATTEMPT = 4
    ATTACHMENT = 5
    REPRODUCE = 6


class _Rank(IntEnum):
    """The parts of a page; if not all of it fits, the last ones here are left out first."""

    TABLE = 1
    FINDING = 2
    ATTEMPT = 3
    ATTACHMENT = 4
    REPRODUCE = 5
    EVIDENCE = 6


def annotation_style(report: Report) -> str:
    """`success`, `info`, `warning` or `error`, for `buildkite-agent annotate --style`."""
    return tone(report).value


def render(report: Report, *, max_bytes: int = 64 * 1024, artifacts: str | None = None) -> str:
    """`report` as Markdown of at most `max_bytes` bytes of UTF-8, ending with a newline.

    What does not fit is left out whole, evidence first, then from the end; the last line counts
    it. `artifacts` is the report's directory as the Artifacts tab shows it ("" if the files lie at
    the top); None makes no links. Raises ValueError below 512 bytes.
    """
    if max_bytes < SMALLEST:
        raise ValueError(f"a page of {max_bytes} bytes holds no report; give it {SMALLEST} or more")
    report = cleaned(report)
    # Command, summary or error, and hint: together never more than half of the page.
    head = _head(report, min(_HEAD_BYTES, max_bytes // 8))
    return page(head, _pieces(report, artifacts), max_bytes)


def _head(report: Report, limit: int) -> str:
    """Verdict and summary; each free text takes at most `limit` bytes."""
    head = headline(report)
    command = fitted(report.command, limit, code)
    if head is None:
        return f"{command} {fitted(report.summary, limit)}"
    ending = f", exit code {report.exit_code}" if report.exit_code else ""
    lines = [f"**{head.symbol} {head.word}** {command} {duration(report.duration_s)}{ending}"]
    error = report.error
    lines.append(fitted(report.summary if error is None else error.message, limit))
    if error is not None and error.hint:
        lines.append(f"**Hint:** {fitted(error.hint, limit)}")
    return "\n\n".join(lines)


def _pieces(report: Report, artifacts: str | None) -> Iterator[PagePiece]:
    if report.error and report.error.detail:
        yield _detail(report.error.detail)
    yield from _tables(report)
    for number, finding in enumerate(worst_first(report)):
        yield from _finding(number, finding)
    yield from _attempts(report.attempts)
    yield from _attachments(report.attachments, artifacts)
    if report.reproduce:
        text = f"\n**Reproduce**\n\n{fenced(report.reproduce.strip(), 'sh')}"
        yield PagePiece((_Part.REPRODUCE,), _Rank.REPRODUCE, text, noun="command to reproduce it")


def _detail(detail: str) -> PagePiece:
    text = f"\n<details>\n<summary>Detail</summary>\n\n{_block(detail)}\n\n</details>"
    return PagePiece((_Part.DETAIL,), _Rank.EVIDENCE, text, weight=len(detail.encode()))


def _tables(report: Report) -> Iterator[PagePiece]:
    for number, table in enumerate(report.tables):
        for index, row in enumerate(table.rows):
            heading = "" if index else _table_heading(table)
            text = heading + _table_row(table, row)
            yield PagePiece((_Part.TABLE, number, index), _Rank.TABLE, text, noun="line")


def _table_heading(table: Table) -> str:
    title = fitted(table.title, _CELL_BYTES) or "…"
    heading = f"\n**{title}**\n\n"
    if not table.columns:
        return heading
    names = _table_line(["", *(fitted(name, _CELL_BYTES) for name in table.columns)])
    return f"{heading}{names}\n|---|{'--:|' * len(table.columns)}\n"


def _table_row(table: Table, row: Row) -> str:
    """A row of a table with columns; else an item of a list."""
    label = fitted(row.label, _LINE_BYTES)
    figures = [fitted(figure(cell), _LINE_BYTES) for cell in row.cells]
    if table.columns:
        missing = [""] * (len(table.columns) - len(figures))
        return _table_line([label, *figures, *missing])
    values = ", ".join(figures)
    if not values:
        return f"- {label}"
    return f"- {label}: {values}" if label else f"- {values}"


def _table_line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _finding(number: int, finding: Finding) -> Iterator[PagePiece]:
    where = (_Part.FINDING, number)
    mark = symbol(finding.severity)
    if not finding.evidence and finding.remedy is None:
        sentence = fitted(finding.summary, _LINE_BYTES)
        text = f"\n{mark} {sentence} {fitted(finding.rule, _CELL_BYTES, code)}"
        yield PagePiece(where, _Rank.FINDING, text, noun="finding")
        return
    # The worst error is open: a reader must not click to learn why the build is red.
    opened = " open" if number == 0 and finding.severity is Severity.ERROR else ""
    sentence = fitted(finding.summary, _LINE_BYTES, summary)
    rule = fitted(finding.rule, _CELL_BYTES, _escaped_html)
    text = f"\n<details{opened}>\n<summary>{mark} {sentence} <code>{rule}</code></summary>"
    tail = f"{_remedy(finding.remedy)}\n</details>"
    yield PagePiece(where, _Rank.FINDING, text, tail, noun="finding")
    for row, evidence in enumerate(finding.evidence):
        lines = _evidence(evidence)
        # At least one byte: a place without an excerpt is missed too.
        weight = len((evidence.excerpt or "").encode()) or 1
        yield PagePiece((*where, row), _Rank.EVIDENCE, lines, weight=weight)


def _escaped_html(text: str) -> str:
    return html.escape(one_line(text))


def _remedy(remedy: str | None) -> str:
    if remedy is None:
        return ""
    if is_sentence(remedy):
        return f"\n**Try:** {fitted(remedy, _BLOCK_CHARACTERS)}\n"
    return f"\n**Try:**\n\n{_block(remedy, 'sh')}\n"


def _evidence(evidence: Evidence) -> str:
    blocks = []
    where = place(evidence)
    if where:
        blocks.append(fitted(where, _CELL_BYTES, code))
    if evidence.excerpt is not None:
        blocks.append(_block(evidence.excerpt))
    # Without empty lines around it, Markdown inside HTML is not read as Markdown.
    return "\n".join(f"\n{block}" for block in blocks)


def _block(text: str, language: str = "text") -> str:
    """A fenced block of the beginning of `text`."""
    text = text.strip("\n")
    shown = text[:_BLOCK_CHARACTERS]
    if shown != text:
        missing = size(len(text.encode()) - len(shown.encode()))
        shown += f"\n… {missing} more in report.json"
    return fenced(shown, language)


def _attempts(attempts: tuple[Attempt, ...]) -> Iterator[PagePiece]:
    header = "\n| | attempt | time | outcome | log |\n|---|---|--:|---|---|\n"
    for row, attempt in enumerate(attempts):
        cells = [
            "✓" if attempt.ok else "✗",
            fitted(attempt.name, _CELL_BYTES),
            duration(attempt.duration_s),
            fitted(attempt.outcome, _CELL_BYTES),
            fitted(attempt.log or "", _CELL_BYTES, code),
        ]
        text = _table_line(cells)
        if row == 0:
            text = header + text
        yield PagePiece((_Part.ATTEMPT, row), _Rank.ATTEMPT, text, noun="attempt")


def _attachments(attachments: tuple[Attachment, ...], artifacts: str | None) -> Iterator[PagePiece]:
    for row, attachment in enumerate(attachments):
        title = fitted(attachment.title, _CELL_BYTES)
        link = _address(attachment.path, artifacts) if row < _LINKS else None
        shown = f'<a href="{link}">{title}</a>' if link else title
        heading = "" if row else "\n**Attachments**\n\n"
        text = f"{heading}- {shown} {fitted(attachment.path, _CELL_BYTES, code)}"
        yield PagePiece((_Part.ATTACHMENT, row), _Rank.ATTACHMENT, text, noun="attachment")


def _address(path: str, artifacts: str | None) -> str | None:
    """`artifact://path` for a file below the report's directory.

    None for any other, and for one whose URL would need escapes.
    """
    if artifacts is None:
        return None
    whole = str(PurePosixPath(artifacts) / path)
    if not is_plain_path(whole):
        return None
    return f"artifact://{whole}"

# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> Markdown in a bounded number of bytes, also for places that sanitize it.

Its subset of CommonMark, GFM tables and HTML, and the limits:
https://buildkite.com/docs/agent/v3/cli-annotate
"""

from collections.abc import Iterator
from enum import IntEnum
from pathlib import PurePosixPath

from msgspec.structs import replace

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Attachment, Attempt, Report
from ci_doctor.render.formatting import duration, place
from ci_doctor.render.headline import headline, links, symbol, worst_first
from ci_doctor.render.markup import (
    BLOCK_CHARACTERS,
    CELL_BYTES,
    LINE_BYTES,
    PagePiece,
    block,
    code,
    escaped_html,
    fenced,
    fitted,
    is_plain_path,
    page,
    summary,
    table_line,
    table_texts,
)
from ci_doctor.render.safe_text import cleaned

SMALLEST = 512
_HEAD_BYTES = 4000
_ATTEMPTS_HEADER = "\n| | attempt | time | outcome | log |\n|---|---|--:|---|---|\n"
_LINKS = 10  # an annotation has no more of them: https://buildkite.com/docs/platform/limits


class _Part(IntEnum):
    """The parts of a page in the order they are read."""

    DETAIL = 1
    TABLE = 2
    FINDING = 3
    ASIDE = 4
    ATTEMPT = 5
    ATTACHMENT = 6
    REPRODUCE = 7


class _Rank(IntEnum):
    """The parts of a page; if not all of it fits, the last ones here are left out first."""

    TABLE = 1
    FINDING = 2
    ATTEMPT = 3
    ATTACHMENT = 4
    REPRODUCE = 5
    EVIDENCE = 6


def render(report: Report, *, max_bytes: int = 64 * 1024, artifacts: str | None = None) -> str:
    """`report` as Markdown of at most `max_bytes` bytes of UTF-8, ending with a newline.

    What does not fit is left out whole, evidence first, then from the end; the last line counts
    it. `artifacts` is the report's directory as the Artifacts tab shows it ("" if the files lie at
    the top); None makes no links. Raises ValueError below 512 bytes.
    """
    if max_bytes < SMALLEST:
        raise ValueError(f"a page of {max_bytes} bytes holds no report; give it {SMALLEST} or more")
    # It shows no case, and there may be thousands.
    report = cleaned(replace(report, cases=()))
    # Command, summary or error, and hint: together never more than half of the page.
    head = _head(report, min(_HEAD_BYTES, max_bytes // 8))
    return page(head, _pieces(report, artifacts), max_bytes)


def _head(report: Report, limit: int) -> str:
    """Verdict and summary; each free text takes at most `limit` bytes."""
    head = headline(report)
    command = fitted(report.command, limit, code)
    if head is None:
        return f"{command} {fitted(report.summary, limit)}"
    verdict = f"**{head.symbol} {head.word}**"
    time = duration(report.duration_s)
    line = f"{verdict} {command} {time}"
    if report.exit_code:
        line += f", exit code {report.exit_code}"
    return "\n\n".join([line, *_sentences(report, limit), *_about(report)])


def _about(report: Report) -> Iterator[str]:
    """The build, the commit and the branch in a line, as links where an address is known."""
    shown = []
    for each in links(report.about):
        text = fitted(each.text, CELL_BYTES)
        if each.address is not None and len(each.address) <= CELL_BYTES:
            text = f'<a href="{escaped_html(each.address)}">{text}</a>'
        shown.append(f"{each.name} {text}")
    if shown:
        yield " · ".join(shown)


def _sentences(report: Report, limit: int) -> Iterator[str]:
    """The summary, or instead of it the error with its hint."""
    error = report.error
    if error is None:
        yield fitted(report.summary, limit)
        return
    yield fitted(error.message, limit)
    if error.hint:
        hint = fitted(error.hint, limit)
        yield f"**Hint:** {hint}"


def _pieces(report: Report, artifacts: str | None) -> Iterator[PagePiece]:
    """All that may stand below the head; `page` chooses what fits, and puts it in order."""
    error = report.error
    if error and error.detail:
        yield _detail(error.detail)
    yield from _tables(report)
    for number, finding in enumerate(worst_first(report)):
        yield from _finding(number, finding)
    yield from _attempts(report.attempts)
    linked = [each for each in links(report.about) if each.address is not None]
    yield from _attachments(report.attachments, artifacts, _LINKS - len(linked))
    if report.reproduce:
        yield _reproduce(report.reproduce)


def _reproduce(command: str) -> PagePiece:
    # Never shortened as a block is: half a command is one that nobody may run.
    shown = fenced(command.strip(), "sh")
    text = f"\n**Reproduce**\n\n{shown}"
    return PagePiece((_Part.REPRODUCE,), _Rank.REPRODUCE, text, noun="command to reproduce it")


def _detail(detail: str) -> PagePiece:
    shown = block(detail)
    text = f"\n<details>\n<summary>Detail</summary>\n\n{shown}\n\n</details>"
    # First to be read, but of the rank of evidence: it may be longer than all the rest.
    weight = len(detail.encode())
    return PagePiece((_Part.DETAIL,), _Rank.EVIDENCE, text, weight=weight)


def _tables(report: Report) -> Iterator[PagePiece]:
    for number, table in enumerate(report.tables):
        part = _Part.ASIDE if table.is_aside else _Part.TABLE
        for index, (text, noun) in enumerate(table_texts(table)):
            where = (part, number, index)
            yield PagePiece(where, _Rank.TABLE, text, noun=noun)


def _finding(number: int, finding: Finding) -> Iterator[PagePiece]:
    """A finding, and each of its evidence as a piece that may be left out by itself."""
    where = (_Part.FINDING, number)
    if not finding.evidence and finding.remedy is None:
        text = _line(finding)
        yield PagePiece(where, _Rank.FINDING, text, noun="finding")
        return
    # The worst error is open: a reader must not click to learn why the build is red.
    is_open = number == 0 and finding.severity is Severity.ERROR
    text = _opening(finding, is_open=is_open)
    remedy = _remedy(finding)
    tail = f"{remedy}\n</details>"
    yield PagePiece(where, _Rank.FINDING, text, tail, noun="finding")
    for row, evidence in enumerate(finding.evidence):
        below = (*where, row)
        lines = _evidence(evidence)
        excerpt = evidence.excerpt or ""
        # At least one byte: a place without an excerpt is missed too.
        weight = len(excerpt.encode()) or 1
        yield PagePiece(below, _Rank.EVIDENCE, lines, weight=weight)


def _line(finding: Finding) -> str:
    """A finding with nothing to open, as a paragraph."""
    mark = symbol(finding.severity)
    sentence = fitted(finding.summary, LINE_BYTES)
    rule = fitted(finding.rule, CELL_BYTES, code)
    return f"\n{mark} {sentence} {rule}"


def _opening(finding: Finding, *, is_open: bool) -> str:
    """The beginning of a <details> block, up to its evidence."""
    tag = "<details open>" if is_open else "<details>"
    mark = symbol(finding.severity)
    # In the line of an HTML block no Markdown is read: code is written as a tag.
    sentence = fitted(finding.summary, LINE_BYTES, summary)
    rule = fitted(finding.rule, CELL_BYTES, escaped_html)
    return f"\n{tag}\n<summary>{mark} {sentence} <code>{rule}</code></summary>"


def _remedy(finding: Finding) -> str:
    """A sentence as a paragraph, a command as a block to copy; empty for none."""
    remedy = finding.remedy
    if remedy is None:
        return ""
    if finding.is_advice:
        sentence = fitted(remedy, BLOCK_CHARACTERS)
        return f"\n**Try:** {sentence}\n"
    shown = block(remedy, "sh")
    return f"\n**Try:**\n\n{shown}\n"


def _evidence(evidence: Evidence) -> str:
    """Where it is, and the lines there."""
    blocks = []
    where = place(evidence)
    if where:
        blocks.append(fitted(where, CELL_BYTES, code))
    if evidence.excerpt is not None:
        blocks.append(block(evidence.excerpt))
    # Without empty lines around it, Markdown inside HTML is not read as Markdown.
    return "\n".join(f"\n{each}" for each in blocks)


def _attempts(attempts: tuple[Attempt, ...]) -> Iterator[PagePiece]:
    """A line of a table for each attempt; the header belongs to the first."""
    for row, attempt in enumerate(attempts):
        mark = "✓" if attempt.ok else "✗"
        name = fitted(attempt.name, CELL_BYTES)
        time = duration(attempt.duration_s)
        outcome = fitted(attempt.outcome, CELL_BYTES)
        log = fitted(attempt.log or "", CELL_BYTES, code)
        text = table_line([mark, name, time, outcome, log])
        if row == 0:
            text = _ATTEMPTS_HEADER + text
        where = (_Part.ATTEMPT, row)
        yield PagePiece(where, _Rank.ATTEMPT, text, noun="attempt")


def _attachments(
    attachments: tuple[Attachment, ...], artifacts: str | None, most_links: int
) -> Iterator[PagePiece]:
    """An item of a list for each file; the first `most_links` are links."""
    for row, attachment in enumerate(attachments):
        title = fitted(attachment.title, CELL_BYTES)
        link = _address(attachment.path, artifacts)
        if link and row < most_links:
            title = f'<a href="{link}">{title}</a>'
        # The path as well: the title alone is not the name in the Artifacts tab.
        path = fitted(attachment.path, CELL_BYTES, code)
        text = f"- {title} {path}"
        # A part of the first item: a heading alone would announce nothing.
        if row == 0:
            text = f"\n**Attachments**\n\n{text}"
        where = (_Part.ATTACHMENT, row)
        yield PagePiece(where, _Rank.ATTACHMENT, text, noun="attachment")


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

# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> Markdown in a bounded number of bytes, also for places that sanitize it.

Its subset of CommonMark, GFM tables and HTML, and the limits:
https://buildkite.com/docs/agent/v3/cli-annotate
"""

from collections.abc import Iterator
from enum import IntEnum
from pathlib import PurePosixPath

from msgspec.structs import replace

from ci_doctor.model.outcome import Attachment, Attempt, Evidence, Finding, Report, Severity
from ci_doctor.render.formatting import (
    cleaned,
    duration,
    headline,
    links,
    place,
    symbol,
    worst_first,
)
from ci_doctor.render.markup import (
    BLOCK_CHARACTERS,
    CELL_BYTES,
    EVIDENCE,
    LINE_BYTES,
    PagePiece,
    block,
    code,
    details,
    escaped_html,
    fenced,
    finding_line,
    fitted,
    is_plain_path,
    page,
    summary,
    table_line,
    table_texts,
)

SMALLEST = 512
_HEAD_BYTES = 4000
_ATTEMPTS_HEADER = "\n| | attempt | time | outcome | log |\n|---|---|--:|---|---|\n"
_LINKS = 10  # an annotation has no more of them: https://buildkite.com/docs/platform/limits


class _Rank(IntEnum):
    """The parts of a page; if not all of it fits, the last ones here are left out first."""

    TABLE = 1
    FINDING = 2
    ATTEMPT = 3
    ATTACHMENT = 4
    REPRODUCE = 5


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
    """All that may stand below the head, in its order; `page` chooses what fits."""
    error = report.error
    if error and error.detail:
        # Of the rank of evidence: it may be longer than all the rest.
        yield PagePiece(EVIDENCE, f"\n{details('Detail', block(error.detail))}", "detail")
    yield from _tables(report, asides=False)
    for number, finding in enumerate(worst_first(report)):
        yield _finding(finding, is_open=number == 0 and finding.severity is Severity.ERROR)
    yield from _tables(report, asides=True)
    for row, attempt in enumerate(report.attempts):
        # The header belongs to the first.
        line = _attempt(attempt)
        text = line if row else _ATTEMPTS_HEADER + line
        yield PagePiece(_Rank.ATTEMPT, text, "attempt")
    most_links = _LINKS - sum(each.address is not None for each in links(report.about))
    for row, attachment in enumerate(report.attachments):
        # A part of the first item: a heading alone would announce nothing.
        heading = "" if row else "\n**Attachments**\n\n"
        item = _attachment(attachment, artifacts if row < most_links else None)
        yield PagePiece(_Rank.ATTACHMENT, heading + item, "attachment")
    if report.reproduce:
        # Never shortened as a block is: half a command is one that nobody may run.
        shown = fenced(report.reproduce.strip(), "sh")
        text = f"\n**Reproduce**\n\n{shown}"
        yield PagePiece(_Rank.REPRODUCE, text, "command to reproduce it")


def _tables(report: Report, *, asides: bool) -> Iterator[PagePiece]:
    for table in report.tables:
        if table.is_aside is asides:
            for text, noun in table_texts(table):
                yield PagePiece(_Rank.TABLE, text, noun)


def _finding(finding: Finding, *, is_open: bool) -> PagePiece:
    """A finding, and each of its evidence; the worst error is open: a reader must not click to learn why."""
    if not finding.evidence and finding.remedy is None:
        return PagePiece(_Rank.FINDING, f"\n{finding_line(finding, LINE_BYTES)}", "finding")
    tag = "<details open>" if is_open else "<details>"
    # In the line of an HTML block no Markdown is read: code is written as a tag.
    sentence = fitted(finding.summary, LINE_BYTES, summary)
    rule = fitted(finding.rule, CELL_BYTES, escaped_html)
    text = f"\n{tag}\n<summary>{symbol(finding.severity)} {sentence} <code>{rule}</code></summary>"
    # At least one byte: a place without an excerpt is missed too.
    evidence = tuple(
        (_evidence(each), len((each.excerpt or "").encode()) or 1) for each in finding.evidence
    )
    tail = f"{_remedy(finding)}\n</details>"
    return PagePiece(_Rank.FINDING, text, "finding", evidence, tail)


def _remedy(finding: Finding) -> str:
    """A sentence as a paragraph, a command as a block to copy; empty for none."""
    if finding.remedy is None:
        return ""
    if finding.is_advice:
        return f"\n**Try:** {fitted(finding.remedy, BLOCK_CHARACTERS)}\n"
    return f"\n**Try:**\n\n{block(finding.remedy, 'sh')}\n"


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


def _attempt(attempt: Attempt) -> str:
    """A line of a table."""
    mark = "✓" if attempt.ok else "✗"
    name, outcome = fitted(attempt.name, CELL_BYTES), fitted(attempt.outcome, CELL_BYTES)
    log = fitted(attempt.log or "", CELL_BYTES, code)
    return table_line([mark, name, duration(attempt.duration_s), outcome, log])


def _attachment(attachment: Attachment, artifacts: str | None) -> str:
    """An item of a list; a link to `artifact://path` for a file below the report's directory."""
    title = fitted(attachment.title, CELL_BYTES)
    whole = str(PurePosixPath(artifacts or "") / attachment.path)
    if artifacts is not None and is_plain_path(whole):
        title = f'<a href="artifact://{whole}">{title}</a>'
    # The path as well: the title alone is not the name in the Artifacts tab.
    return f"- {title} {fitted(attachment.path, CELL_BYTES, code)}"

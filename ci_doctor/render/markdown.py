# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> Markdown in a bounded number of bytes, also for places that sanitize it.

Its subset of CommonMark, GFM tables and HTML, and the limits:
https://buildkite.com/docs/agent/v3/cli-annotate
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import PurePosixPath
from typing import NamedTuple

from msgspec.structs import replace

from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Evidence,
    Finding,
    Report,
    Row,
    Severity,
    Table,
)
from ci_doctor.render.formatting import (
    amount,
    cleaned,
    duration,
    figure,
    headline,
    links,
    one_line,
    place,
    size,
    symbol,
    worst_first,
)

# --- text that others wrote stays text, and pieces are shown whole ---

_NOTE_BYTES = 220  # six counts of up to seven digits with their nouns
EVIDENCE = 99  # the rank of what goes in last


class PagePiece(NamedTuple):
    """Some lines of a page, which are there as a whole or not at all.

    `rank` says what goes in first if not everything fits. `noun` is what a reader misses without the
    piece. `evidence` are further lines, each left out by itself, and their bytes; `tail` closes what
    `text` has opened.
    """

    rank: int
    text: str
    noun: str = ""
    evidence: tuple[tuple[str, int], ...] = ()
    tail: str = ""


def page(head: str, pieces: Iterable[PagePiece], max_bytes: int) -> str:
    """`head` and as many of `pieces` as fit in `max_bytes` bytes of UTF-8, in their order.

    Left out are the pieces of the highest ranks, within a rank the last ones; a line at the end
    counts them. `head` and that line (at most 220 bytes) are there always. Ends with a newline.
    """
    # Each part with its place: a piece, and its own pieces of evidence.
    parts: list[tuple[int, int, int, str, PagePiece]] = []
    for number, piece in enumerate(pieces):
        own = f"{piece.text}\n{piece.tail}" if piece.tail else piece.text
        parts.append((piece.rank, number, -1, own, piece))
        parts += [
            (EVIDENCE, number, row, text, piece) for row, (text, _) in enumerate(piece.evidence)
        ]
    parts.sort()
    room = max_bytes - len(head.encode()) - 1
    count = _fitting(parts, room)
    if count < len(parts):
        # The note is needed only if pieces are left out, and it takes room itself.
        count = _fitting(parts, room - _NOTE_BYTES)
    lines = [head]
    tail = ""
    for _, _, row, text, piece in sorted(parts[:count], key=lambda part: part[1:3]):
        if row < 0:
            lines += [tail] if tail else []
            tail = piece.tail
        lines.append(piece.text if row < 0 else text)
    lines += [tail] if tail else []
    if count < len(parts):
        lines.append(_note([(row, piece) for _, _, row, _, piece in parts[count:]]))
    return "\n".join(lines) + "\n"


def _fitting(parts: Sequence[tuple[int, int, int, str, PagePiece]], room: int) -> int:
    # The first that does not fit ends it: a later, smaller one would stand without those before it.
    for count, part in enumerate(parts):
        room -= len(part[3].encode()) + 1
        if room < 0:
            return count
    return len(parts)


def _note(missing: Sequence[tuple[int, PagePiece]]) -> str:
    """A line that counts what a reader misses, by its nouns in the order of the ranks."""
    counts = Counter(piece.noun for row, piece in missing if row < 0 and piece.noun)
    # A piece of evidence has no noun: it counts by its bytes.
    weight = sum(piece.evidence[row][1] for row, piece in missing if row >= 0)
    phrases = [amount(count, noun) for noun, count in counts.items()]
    if weight:
        phrases.append(f"{size(weight)} of evidence")
    return f"\n*Left out: {', '.join(phrases)}; see report.json*"


def bullets(lines: Iterable[str], most: int = 99, noun: str = "", see: str = "") -> list[str]:
    """The first `most` of `lines`, which are Markdown, as a list, and where the others are."""
    every = list(lines)
    shown = [f"- {line}" for line in every[:most]]
    if len(every) > most:
        shown.append(f"- {amount(len(every) - most, noun)}: {see}")
    return shown


def details(title: str, inside: str) -> str:
    """`inside` folded below `title`; both are Markdown or HTML already."""
    # Without an empty line before it, Markdown inside HTML is not read as Markdown.
    return f"<details>\n<summary>{title}</summary>\n\n{inside}\n\n</details>"


def finding_line(finding: Finding, most: int) -> str:
    """A finding in a line: its mark, its sentence in at most `most` bytes, its rule."""
    rule = fitted(finding.rule, _RULE_BYTES, code)
    return f"{symbol(finding.severity)} {fitted(finding.summary, most)} {rule}"


_RULE_BYTES = 100
BLOCK_CHARACTERS = 4000  # of one excerpt or remedy; the whole is in report.json
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# `:` before // and `.` after www begin a link by themselves (GFM, "autolinks").
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&]|:(?=//)|(?<=www)\.", re.IGNORECASE)
# What makes a heading, a list or a rule only at the beginning of a line.
_OPENING = re.compile(r"^(\d*)([-+=#.)])")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_+=,-][A-Za-z0-9_+=,./-]*")
# `:name:` becomes an emoji on Buildkite and GitHub; a tag in between leaves it text.
_EMOJI = re.compile(r":(?!\d+:)(?=(?:[a-z0-9+-]|\\?_)+:)")
_MARKDOWN = re.compile(r"[\\`*_\[\]|~:.@]")


def inline(text: str) -> str:
    """One line of Markdown that shows `text`.

    What it has in backticks becomes code; web addresses do not become links. Safe in a paragraph,
    a list item and a GFM table cell.
    """
    # Last, because the escapes before it may already have taken the line's first character.
    return _OPENING.sub(r"\1\\\2", _with_code(text, _escaped, code))


def _with_code(text: str, plain: Callable[[str], str], in_backticks: Callable[[str], str]) -> str:
    # split() with a group returns what is between the matches and the groups in turn.
    parts = enumerate(_CODE.split(one_line(text)))
    return "".join(in_backticks(part) if at % 2 else plain(part) for at, part in parts)


def _escaped(text: str) -> str:
    escaped = _SPECIAL.sub(r"\\\g<0>", text)
    return _EMOJI.sub("<span>:</span>", escaped)


def code(text: str) -> str:
    """`text` as code in a line; as HTML if it holds a pipe.

    A pipe ends a table's cell even inside a code span, and a backslash before it would be shown
    outside of a table.
    """
    line = one_line(text)
    if not line:
        return ""
    if "|" in line:
        return f"<code>{_entities(line)}</code>"
    fence = "`" * (_longest_run(line) + 1)
    # CommonMark strips one space from both ends: without it the fence would grow.
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def _entities(text: str) -> str:
    """HTML text in which no Markdown is left either."""
    # HTML first: `#` and `&` of the entities that are put in here must not be escaped again.
    return _MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", html.escape(text))


def summary(text: str) -> str:
    """`text` as the content of an HTML block's line; what it has in backticks becomes code."""
    return _with_code(text, _plain_html, lambda code: f"<code>{html.escape(code)}</code>")


def escaped_html(text: str) -> str:
    """`text` as one line of HTML text, or of an attribute's value."""
    return html.escape(one_line(text))


def _plain_html(text: str) -> str:
    return _EMOJI.sub("<span>:</span>", html.escape(text))


def fenced(text: str, language: str = "text") -> str:
    """`text` as a fenced block, the fence longer than any run of backticks inside it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def block(text: str, language: str = "text") -> str:
    """A fenced block of the beginning of `text`."""
    text = text.strip("\n")
    shown = text[:BLOCK_CHARACTERS]
    missing = len(text.encode()) - len(shown.encode())
    if missing:
        shown += f"\n… {size(missing)} more in report.json"
    return fenced(shown, language)


def _longest_run(text: str) -> int:
    runs = re.findall("`+", text)
    return max(map(len, runs), default=0)


def fitted(text: str, limit: int, escape: Callable[[str], str] = inline) -> str:
    """`escape(text)` in at most `limit` bytes.

    If it is longer, the longest beginning that fits is taken, with an ellipsis.
    """
    # No escape makes a text shorter: what is beyond the limit in characters cannot fit in bytes.
    text = one_line(text)[: limit + 1]
    whole = escape(text)
    if len(whole.encode()) <= limit:
        return whole
    # How much an escape adds depends on the text: what it needs is found by trying.
    low, high = 0, len(text)
    while low < high:
        # Rounded up, or `low = middle` would not end a range of two.
        middle = (low + high + 1) // 2
        if len(escape(f"{text[:middle].rstrip()}…").encode()) <= limit:
            low = middle
        else:
            high = middle - 1
    return escape(f"{text[:low].rstrip()}…")


def is_plain_path(path: str) -> bool:
    """True for a path inside a report's directory that needs no escapes in a URL."""
    parts = PurePosixPath(path)
    is_outside = parts.is_absolute() or ".." in parts.parts
    return not is_outside and _PLAIN_PATH.fullmatch(path) is not None


LINE_BYTES = 1000
CELL_BYTES = 300


def table_texts(table: Table) -> Iterator[tuple[str, str]]:
    """The lines of `table`, each with the noun of what a reader misses without it.

    The title and the header belong to the first line.
    """
    columns = max(len(table.columns), *(len(row.cells) for row in table.rows), 0)
    # Lines that hold columns of their own, which only a fixed width keeps.
    if not columns and (table.is_verbatim or any("  " in row.label.strip() for row in table.rows)):
        yield _heading(table, 0) + block("\n".join(row.label for row in table.rows)), "table"
        return
    for index, row in enumerate(table.rows):
        text = _row(row, columns)
        # A heading alone would be a table without a line.
        if index == 0:
            text = _heading(table, columns) + text
        yield text, "line"


def table_line(cells: list[str]) -> str:
    """A row of a GFM table; each cell is Markdown already."""
    return f"| {' | '.join(cells)} |"


def _heading(table: Table, columns: int) -> str:
    """The title, and above rows with cells the names of the columns, empty if they have none."""
    # Without a title, `****` would be shown as it stands.
    title = fitted(table.title, CELL_BYTES) or "…"
    heading = f"\n**{title}**\n\n"
    if not columns:
        return heading
    names = [fitted(name, CELL_BYTES) for name in table.columns]
    names += [""] * (columns - len(names))
    # GFM needs this line below the names, and the names above it.
    header = table_line(["", *names])
    delimiters = "".join(_delimiter(table, index) for index in range(columns))
    return f"{heading}{header}\n|---|{delimiters}\n"


def _delimiter(table: Table, index: int) -> str:
    """Figures stand at the right of a column with a name, texts at its left."""
    cells = [row.cells[index] for row in table.rows if index < len(row.cells)]
    are_texts = any(isinstance(cell.value, str | bool) for cell in cells)
    is_named = index < len(table.columns)
    return "--:|" if is_named and not are_texts else "---|"


def _row(row: Row, columns: int) -> str:
    """A row of a table; an item of a list if no row has cells."""
    label = fitted(row.label, LINE_BYTES)
    if not columns:
        return f"- {label}"
    figures = [fitted(figure(cell), LINE_BYTES) for cell in row.cells]
    missing = [""] * (columns - len(figures))
    return table_line([label, *figures, *missing])


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

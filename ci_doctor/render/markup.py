# SPDX-License-Identifier: Apache-2.0
"""Pure. Markdown of a bounded number of bytes: text that others wrote stays text, and pieces are shown whole."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import PurePosixPath
from typing import NamedTuple

from ci_doctor.model.table import Row, Table
from ci_doctor.render.formatting import amount, figure, size
from ci_doctor.render.safe_text import one_line

_LAST = 1 << 30  # a place after all that are below the same piece
_NOTE_BYTES = 220  # six counts of up to seven digits with their nouns


class PagePiece(NamedTuple):
    """Some lines of a page.

    `place` is the order in which they are read: (2, 5) before (2, 5, 0) before (2, 6). `rank` says
    what goes in first if not everything fits. `tail` closes `text` after everything at a place
    below its own. `noun` is what a reader misses without the piece, `weight` how many bytes of
    evidence.
    """

    place: tuple[int, ...]
    rank: int
    text: str
    tail: str = ""
    noun: str = ""
    weight: int = 0

    def size(self) -> int:
        """Bytes on the page, line ends included."""
        count = len(self.text.encode()) + 1
        if self.tail:
            count += len(self.tail.encode()) + 1
        return count


def page(head: str, pieces: Iterable[PagePiece], max_bytes: int) -> str:
    """`head` and as many of `pieces` as fit in `max_bytes` bytes of UTF-8, in reading order.

    Left out are the pieces of the highest ranks, within a rank the last ones; a line at the end
    counts them. `head` and that line (at most 220 bytes) are there always. Ends with a newline.
    """
    ranked = sorted(pieces, key=attrgetter("rank"))
    # sorted() is stable: within a rank the pieces keep their order.
    room = max_bytes - len(head.encode()) - 1
    kept = _fitting(ranked, room)
    if len(kept) < len(ranked):
        # The note is needed only if pieces are left out, and it takes room itself.
        kept = _fitting(ranked, room - _NOTE_BYTES)
    parts = [head, *_in_reading_order(kept)]
    missing = ranked[len(kept) :]
    if missing:
        parts.append(_note(missing))
    return "\n".join(parts) + "\n"


def _fitting(ranked: list[PagePiece], room: int) -> list[PagePiece]:
    # The first that does not fit ends it: a later, smaller one would stand without those before it.
    for count, piece in enumerate(ranked):
        room -= piece.size()
        if room < 0:
            return ranked[:count]
    return ranked


def _in_reading_order(pieces: list[PagePiece]) -> list[str]:
    placed = []
    for piece in pieces:
        placed.append((piece.place, piece.text))
        if piece.tail:
            end = (*piece.place, _LAST)
            placed.append((end, piece.tail))
    placed.sort()
    return [text for _, text in placed]


def _note(missing: list[PagePiece]) -> str:
    """A line that counts what a reader misses, by its nouns in the order of the ranks."""
    counts: Counter[str] = Counter()
    weight = 0
    for piece in missing:
        weight += piece.weight
        # A piece of evidence has no noun: it counts by its bytes.
        if piece.noun:
            counts[piece.noun] += 1
    phrases = [amount(count, noun) for noun, count in counts.items()]
    if weight:
        phrases.append(f"{size(weight)} of evidence")
    listed = ", ".join(phrases)
    return f"\n*Left out: {listed}; see report.json*"


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
    line = one_line(text)
    parts: list[str] = []
    end = 0
    for match in _CODE.finditer(line):
        before = line[end : match.start()]
        parts.append(_escaped(before))
        parts.append(code(match.group(1)))
        end = match.end()
    rest = line[end:]
    parts.append(_escaped(rest))
    # Last, because the escapes before it may already have taken the line's first character.
    return _OPENING.sub(r"\1\\\2", "".join(parts))


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
    escaped = html.escape(text)
    return _MARKDOWN.sub(_entity, escaped)


def _entity(match: re.Match[str]) -> str:
    number = ord(match.group())
    return f"&#{number};"


def summary(text: str) -> str:
    """`text` as the content of an HTML block's line; what it has in backticks becomes code."""
    line = one_line(text)
    parts: list[str] = []
    end = 0
    for match in _CODE.finditer(line):
        parts.append(_plain_html(line[end : match.start()]))
        parts.append(f"<code>{html.escape(match.group(1))}</code>")
        end = match.end()
    parts.append(_plain_html(line[end:]))
    return "".join(parts)


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
    # A search by halves: how much an escape adds depends on the text.
    low = 0
    high = len(text)
    while low < high:
        # Rounded up, or `low = middle` would not end a range of two.
        middle = (low + high + 1) // 2
        beginning = _beginning(text, middle, escape)
        if len(beginning.encode()) <= limit:
            low = middle
        else:
            high = middle - 1
    return _beginning(text, low, escape)


def _beginning(text: str, count: int, escape: Callable[[str], str]) -> str:
    return escape(text[:count].rstrip() + "…")


def is_plain_path(path: str) -> bool:
    """True for a path inside a report's directory that needs no escapes in a URL."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        return False
    return _PLAIN_PATH.fullmatch(path) is not None


LINE_BYTES = 1000
CELL_BYTES = 300


def table_texts(table: Table) -> Iterator[tuple[str, str]]:
    """The lines of `table`, each with the noun of what a reader misses without it.

    The title and the header belong to the first line.
    """
    columns = max((len(row.cells) for row in table.rows), default=0)
    columns = max(columns, len(table.columns))
    if not columns and _is_laid_out(table):
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
    joined = " | ".join(cells)
    return f"| {joined} |"


def _is_laid_out(table: Table) -> bool:
    """Whether the lines hold columns of their own, which only a fixed width keeps."""
    return any("  " in row.label.strip() for row in table.rows)


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

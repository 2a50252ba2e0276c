# SPDX-License-Identifier: Apache-2.0
"""Pure. Lines of a fixed width for a terminal, measured in cells: a wide character takes two."""

import re
from collections.abc import Iterator

from rich.cells import cell_len

# A command in backticks is one word: a line break inside it would be pasted with it.
_WORDS = re.compile(r"(?:`[^`\n]*`|[^\s`]|`)+")


def wrap(
    text: str, width: int, *, first: str = "", rest: str = "", breakable: bool = False
) -> list[str]:
    r"""`text` as lines of at most `width` cells, broken between words.

    `first` stands before the first line and `rest` before the others. Each `\n` begins a line
    anew. Spaces inside a line stay, so that columns which fit keep their form. A word wider than a
    line stays whole, unless `breakable`.
    """
    # What remains of a broken word stands on lines that begin with `rest`.
    limit = None
    if breakable:
        limit = width - cell_len(rest)
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = rest if lines else first
        has_words = False
        end = 0
        for start, word in _words(paragraph, limit):
            gap = paragraph[end:start]
            longer = line + gap + word
            # The first word stays even if it is too wide: a break before it would gain nothing.
            if has_words and cell_len(longer) > width:
                lines.append(line.rstrip())
                longer = rest + word
            line = longer
            has_words = True
            end = start + len(word)
        lines.append(line.rstrip())
    return lines


def _words(paragraph: str, limit: int | None) -> Iterator[tuple[int, str]]:
    """Words and their positions; with a `limit`, none is wider than that many cells."""
    for match in _WORDS.finditer(paragraph):
        start = match.start()
        word = match.group()
        while limit and cell_len(word) > limit:
            cut = _count_fitting(word, limit)
            yield start, word[:cut]
            start += cut
            word = word[cut:]
        yield start, word


def _count_fitting(word: str, limit: int) -> int:
    """How many characters of `word` fill `limit` cells; at least one."""
    cells = 0
    for position, character in enumerate(word):
        cells += cell_len(character)
        if cells > limit:
            # One at least, even if a wide character exceeds the limit: or a break would not end.
            return max(position, 1)
    return len(word)


def pad(text: str, width: int) -> str:
    """`text` with spaces after it, up to `width` cells."""
    missing = width - cell_len(text)
    return text + " " * missing


def widest(texts: list[str]) -> int:
    """The cells of the widest of `texts`; 0 for none."""
    return max(map(cell_len, texts), default=0)


def clip(text: str, width: int) -> str:
    """`text` cut to `width` cells, the last an ellipsis if something is missing."""
    if cell_len(text) <= width:
        return text
    # One cell is kept for the ellipsis.
    count = _count_fitting(text, width - 1)
    return text[:count] + "…"

# SPDX-License-Identifier: Apache-2.0
"""Lines of a fixed width for a terminal, measured in cells: a wide character takes two."""

import re
from collections.abc import Iterator

from rich.cells import cell_len

# A command in backticks is one word: a line break inside it would be pasted with it.
_WORDS = re.compile(r"(?:`[^`\n]*`|[^\s`]|`)+")


def wrap(
    text: str, width: int, *, first: str = "", rest: str = "", breakable: bool = False
) -> list[str]:
    r"""`text` as lines of at most `width` cells, broken between words; `first` and `rest` stand before them.

    Each `\n` begins a line anew. Spaces inside a line stay, so that columns which fit keep their form. A word wider
    than a line stands out of it whole, unless `breakable`.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        prefix = rest if lines else first
        line, empty, end = prefix, True, 0
        for start, word in _pieces(paragraph, width - cell_len(rest) if breakable else None):
            gap = paragraph[end:start]
            if not empty and cell_len(line + gap + word) > width:
                lines.append(line.rstrip())
                line, gap = rest, ""
            line, empty, end = line + gap + word, False, start + len(word)
        lines.append(line.rstrip())
    return lines


def _pieces(paragraph: str, limit: int | None) -> Iterator[tuple[int, str]]:
    """Words with where they start; with a `limit`, none is wider than that many cells."""
    for match in _WORDS.finditer(paragraph):
        start, word = match.start(), match.group()
        while limit and cell_len(word) > limit:
            cut = _fitting(word, limit)
            yield start, word[:cut]
            start, word = start + cut, word[cut:]
        yield start, word


def _fitting(word: str, limit: int) -> int:
    """How many characters of `word` fill `limit` cells; at least one."""
    cells = 0
    for position, character in enumerate(word):
        cells += cell_len(character)
        if cells > limit:
            return max(position, 1)
    return len(word)


def pad(text: str, width: int) -> str:
    """`text` with spaces after it, up to `width` cells."""
    return text + " " * (width - cell_len(text))


def widest(texts: list[str]) -> int:
    """The cells of the widest of `texts`; 0 for none."""
    return max(map(cell_len, texts), default=0)


def clip(text: str, width: int) -> str:
    """`text` cut to `width` cells, the last an ellipsis where something is missing."""
    if cell_len(text) <= width:
        return text
    return text[: _fitting(text, width - 1)] + "…"

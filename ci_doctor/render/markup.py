# SPDX-License-Identifier: Apache-2.0
"""Text that others wrote, escaped for each place of a CommonMark page so that it stays text."""

import html
import re
from collections.abc import Callable

from ci_doctor.render.safe_text import one_line

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&]|:(?=//)|(?<=www)\.", re.IGNORECASE)
# What makes a heading, a list or a rule only where it begins a line.
_OPENING = re.compile(r"^(\d*)([-+=#.)])")


def inline(text: str) -> str:
    """One line of Markdown that shows `text`; what it has in backticks becomes code, web addresses do not become links.

    Safe in a paragraph, a list item and a GFM table cell.
    """
    line = one_line(text)
    pieces: list[str] = []
    end = 0
    for match in _CODE.finditer(line):
        pieces += [_escaped(line[end : match.start()]), code(match.group(1))]
        end = match.end()
    pieces.append(_escaped(line[end:]))
    return _OPENING.sub(r"\1\\\2", "".join(pieces))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match.group(), text)


def code(text: str) -> str:
    """`text` as code in a line; with a pipe in it as HTML, because a code span cannot hold one inside a table and outside."""
    line = one_line(text)
    if not line:
        return ""
    if "|" in line:
        return f"<code>{_entities(line)}</code>"
    fence = "`" * (_longest_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def _entities(text: str) -> str:
    """HTML text in which no Markdown is left either."""
    return re.sub(r"[\\`*_\[\]|~:.@]", lambda match: f"&#{ord(match.group())};", html.escape(text))


def summary(text: str) -> str:
    """`text` as the content of an HTML block's line; what it has in backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", html.escape(one_line(text)))


def fenced(text: str, language: str = "text") -> str:
    """`text` as a fenced block, the fence longer than any run of backticks inside it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def fitted(text: str, limit: int, escape: Callable[[str], str] = inline) -> str:
    """`escape(text)`, of at most `limit` bytes: where it is longer, that of the longest beginning that fits and an ellipsis."""
    text = one_line(text)[: limit + 1]
    if len(escape(text).encode()) <= limit:
        return escape(text)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(escape(text[:middle].rstrip() + "…").encode()) <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return escape(text[:low].rstrip() + "…")

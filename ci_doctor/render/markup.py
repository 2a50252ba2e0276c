# SPDX-License-Identifier: Apache-2.0
"""Pure. Text that others wrote, escaped for each place of a CommonMark page: it stays text."""

import html
import re
from collections.abc import Callable
from pathlib import PurePosixPath

from ci_doctor.render.formatting import size
from ci_doctor.render.safe_text import one_line

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

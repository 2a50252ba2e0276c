# SPDX-License-Identifier: Apache-2.0
"""Pure. A shell's command line, broken to fit a width."""

import re
from typing import Final

# A word as a person wrote it, with its quotes.
_WORD: Final = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+""")
_REST: Final = "  "
_BREAK: Final = " \\"


def broken_line(line: str, width: int) -> list[str]:
    """Return `line` in pieces of at most `width` cells, if its words allow that.

    A piece that is not the last ends with a backslash, so that the pieces together are the same command.
    An option and its value stay together if they fit.
    """
    if len(line) <= width:
        return [line]
    pieces: list[str] = []
    current = ""
    for part in _parts(_WORD.findall(line), width):
        joined = f"{current} {part}" if current else part
        if current and len(joined) + len(_BREAK) > width:
            pieces.append(current + _BREAK)
            joined = _REST + part
        current = joined
    return [*pieces, current]


def _parts(words: list[str], width: int) -> list[str]:
    """Words, but an option with its value is one, if that fits."""
    parts: list[str] = []
    for word in words:
        before = parts[-1] if parts else ""
        is_value = before.startswith("--") and " " not in before and before != "--"
        together = f"{before} {word}"
        fits = len(together) + len(_REST) + len(_BREAK) <= width
        if is_value and not word.startswith("-") and fits:
            parts[-1] = together
        else:
            parts.append(word)
    return parts

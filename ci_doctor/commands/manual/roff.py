# SPDX-License-Identifier: Apache-2.0
"""Pure. Text as roff input of the macros of man(7), as groff and mandoc read it."""

import re
from typing import Final

# groff_man_style(7), "Portability": the characters that a formatter changes, by their names.
_NAMED: Final = {
    "\\": r"\(rs",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
    '"': r"\(dq",
}
_CODE: Final = re.compile(r"`([^`]+)`")


def escaped(text: str) -> str:
    r"""`text` as it stands, whatever it holds; a line that begins with a dot too.

    Characters outside ASCII become `\[uXXXX]`, so that the encoding of the file does not matter.
    """
    lines = [_escaped_line(line) for line in text.split("\n")]
    return "\n".join(lines)


def prose(text: str) -> str:
    """A paragraph, with what stands in backticks in bold."""
    pieces = _CODE.split(text)
    # The odd ones stood in backticks.
    joined = "".join(
        rf"\fB{_characters(piece)}\fR" if number % 2 else _characters(piece)
        for number, piece in enumerate(pieces)
    )
    return _guarded(joined)


def bold(text: str) -> str:
    """`text` in bold, within a line."""
    return rf"\fB{_characters(text)}\fR"


def italic(text: str) -> str:
    """`text` in italics, within a line."""
    return rf"\fI{_characters(text)}\fR"


def argument(text: str) -> str:
    """`text` as one argument of a macro."""
    return f'"{_characters(text)}"'


def _escaped_line(line: str) -> str:
    return _guarded(_characters(line))


def _guarded(line: str) -> str:
    r"""A line whose first character is text: a dot would begin a request, `\&` is nothing."""
    return rf"\&{line}" if line.startswith((".", " ")) else line


def _characters(text: str) -> str:
    return "".join(map(_character, text))


def _character(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    return character if character.isascii() else rf"\[u{ord(character):04X}]"

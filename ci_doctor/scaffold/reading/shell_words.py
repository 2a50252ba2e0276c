# SPDX-License-Identifier: Apache-2.0
"""Pure. A line of shell as commands of words, without a shell.

The standard library's shlex does not say which `$` is quoted, and takes `2>&1` for words. The reader
of `lint` gives a whole syntax tree; it comes with an extra, and `init` is the first command that a
person runs. So this one reads the simple commands of one line, and gives up what it does not know.
"""

import re
from typing import Final

from msgspec import Struct

# In place of a `$` that the shell expands, in quotes and outside of them: a quoted value stays one word.
QUOTED: Final = "\ue000"
BARE: Final = "\ue001"
# Expansions whose values nobody knows before the script runs.
OPAQUE: Final = "\ue002"
_MARKS: Final = re.compile(f"[{QUOTED}{BARE}{OPAQUE}]")
_DEEPEST: Final = 5
_SEPARATORS: Final = frozenset(";&|()\n")
_REDIRECTION: Final = re.compile(r"(?:\d*|&)(?:>>?\|?|<<?<?)(?:&\s*(?:\d+|-))?")
_NAME: Final = re.compile(r"[A-Za-z_]")


def without_marks(text: str) -> str:
    """A text of others without the characters that are marks here: each would become a live `$`."""
    return _MARKS.sub("\ufffd", text)


class SimpleCommand(Struct, frozen=True, kw_only=True):
    """The words of one command, redirections left out; in_background: a `&` follows it."""

    words: tuple[str, ...]
    in_background: bool = False


def commands_in(line: str) -> tuple[SimpleCommand, ...]:
    """The commands of a line, then those in its substitutions.

    A quotation that is not closed ends with the line.
    """
    return tuple(_LineReader(line).commands())


class _LineReader:
    """One line, read from left to right."""

    def __init__(self, line: str, depth: int = 0) -> None:
        self._line = line if depth < _DEEPEST else ""
        self._depth = depth
        self._inner: list[str] = []
        self._at = 0
        self._words: list[str] = []
        self._word: list[str] | None = None
        self._commands: list[SimpleCommand] = []
        self._skips_next = False

    def commands(self) -> list[SimpleCommand]:
        while self._at < len(self._line):
            self._step()
        self._end_command(in_background=False)
        for inner in self._inner:
            self._commands += _LineReader(inner, self._depth + 1).commands()
        return self._commands

    def _step(self) -> None:
        character = self._line[self._at]
        if character.isspace() and character != "\n":
            self._end_word()
            self._at += 1
        elif character == "#" and self._word is None:
            self._at = len(self._line)
        elif self._word is None and self._redirects():
            return
        elif character in _SEPARATORS:
            self._separate(character)
        else:
            self._part(character)

    def _redirects(self) -> bool:
        match = _REDIRECTION.match(self._line, self._at)
        if match is None or not match[0].strip("0123456789&"):
            return False
        self._at = match.end()
        # `2>&1` is whole; `> file` has a word behind it.
        self._skips_next = "&" not in match[0].lstrip("&")
        return True

    def _separate(self, character: str) -> None:
        following = self._line[self._at + 1 : self._at + 2]
        if character == "&" and following == ">":
            self._end_word()
            self._redirects()
            return
        self._at += 1
        if following == character and character in "&|;":
            self._at += 1
            self._end_command(in_background=False)
            return
        self._end_command(in_background=character == "&")

    def _part(self, character: str) -> None:
        """A piece of a word: a quotation, an expansion, or a character."""
        word = self._begun()
        if character in "<>" and word:
            # `file>log` without a space.
            self._end_word()
            self._redirects()
            return
        self._at += 1
        if character == "'":
            word.append(self._until("'"))
        elif character == '"':
            self._double_quoted(word)
        elif character == "\\":
            word.append(self._line[self._at : self._at + 1])
            self._at += 1
        elif character in "$`":
            word.append(self._expansion(character, BARE))
        else:
            word.append(character)

    def _begun(self) -> list[str]:
        if self._word is None:
            self._word = []
        return self._word

    def _double_quoted(self, word: list[str]) -> None:
        while self._at < len(self._line):
            character = self._line[self._at]
            self._at += 1
            if character == '"':
                return
            if character == "\\" and self._line[self._at : self._at + 1] in {'"', "\\", "$", "`"}:
                word.append(self._line[self._at])
                self._at += 1
            elif character in "$`":
                word.append(self._expansion(character, QUOTED))
            else:
                word.append(character)

    def _expansion(self, character: str, mark: str) -> str:
        """What stands for a `$` or a backtick that has just been read."""
        if character == "`":
            self._until("`")
            return OPAQUE
        following = self._line[self._at : self._at + 1]
        if following == "(":
            inner = self._within("(", ")")
            # What it runs is a command, too; `$((` is a sum.
            if not inner.startswith("("):
                self._inner.append(inner)
            return OPAQUE
        if following == "{":
            return f"{mark}{{{self._within('{', '}')}}}"
        if _NAME.match(self._line, self._at) is not None:
            return mark
        # `$1`, `$@`, `$?`.
        if following and following in "0123456789@*#?!":
            return mark
        return "$"

    def _within(self, opening: str, closing: str) -> str:
        """The text up to the bracket that closes the one at the present place."""
        depth = 0
        first = self._at + 1
        while self._at < len(self._line):
            character = self._line[self._at]
            self._at += 1
            depth += {opening: 1, closing: -1}.get(character, 0)
            if depth == 0:
                return self._line[first : self._at - 1]
        return self._line[first:]

    def _until(self, end: str) -> str:
        place = self._line.find(end, self._at)
        if place < 0:
            place = len(self._line)
        text = self._line[self._at : place]
        self._at = place + 1
        return text

    def _end_word(self) -> None:
        if self._word is None:
            return
        word = "".join(self._word)
        self._word = None
        if self._skips_next:
            self._skips_next = False
            return
        self._words.append(word)

    def _end_command(self, *, in_background: bool) -> None:
        self._end_word()
        self._skips_next = False
        if self._words:
            command = SimpleCommand(words=tuple(self._words), in_background=in_background)
            self._commands.append(command)
        self._words = []

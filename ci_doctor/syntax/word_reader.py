# SPDX-License-Identifier: Apache-2.0
"""Pure. The words of a shell program, with all that stands in them, and its redirections and here-documents.

Grammar: https://www.gnu.org/software/bash/manual/bash.html#Shell-Expansions.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final, NoReturn

from msgspec import Struct

from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode

DEEPEST: Final = 200
BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)+")
_LITERAL: Final = re.compile(r"[^\s\"'`$\\<>|&;()]+")
_QUOTED: Final = re.compile(r"[^\"\\$`]+")
_BRACED: Final = re.compile(r"[^\"'`$\\{}]+")
_ARITHMETIC: Final = re.compile(r"[^\"'`$\\()]+")
_PARAMETER: Final = re.compile(r"[!#]?(?:\w+|[?$#@*!-])?")
_ANSI_QUOTED: Final = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BACKQUOTED: Final = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
_PLAIN_HERE: Final = re.compile(r"[^\\$`]+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_REDIRECTION: Final = re.compile(
    r"(?:\d+|\{[A-Za-z_]\w*\})?(<<<|<<-?|<>|>>|>\||[<>]&|[<>](?!\())|&>>?"
)
_DELIMITER: Final = re.compile(r"(?:\\.|\"[^\"]*\"|'[^']*'|[^\s<>|&;()\"'\\])+", re.DOTALL)


class UnreadableError(Exception):
    """The text at `offset` fits no rule of the grammar."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class _HereDocument(Struct):
    """A here-document whose body begins after the line."""

    node: ShellNode
    delimiter: str
    quoted: bool
    strip: bool


class WordReader(ABC):
    """A text with a place in it. Each method reads one construct and moves the place behind it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.depth = 0
        self._pending: list[_HereDocument] = []
        self._no_arithmetic: set[int] = set()

    @abstractmethod
    def _list(self, parent: ShellNode, stops: frozenset[str]) -> str:
        """Statements up to a word of `stops`, or to what closes the construct around."""

    # Redirections.

    def _redirections(self, node: ShellNode) -> None:
        """Those after a compound command."""
        while self._blanks() and self._redirection(node):
            pass
        if node.redirections:
            node.end = max(node.end, node.redirections[-1][1])

    def _redirection(self, node: ShellNode) -> bool:
        match = _REDIRECTION.match(self.text, self.at, self.end)
        if match is None:
            return False
        start, self.at = self.at, match.end()
        operator = match[1]
        self._blanks()
        if operator in ("<<", "<<-"):
            self._here_document(node, start, strip=operator == "<<-")
        else:
            self._word(node)
        node.redirections.append((start, self.at))
        return True

    def _here_document(self, node: ShellNode, start: int, *, strip: bool) -> None:
        match = _DELIMITER.match(self.text, self.at, self.end)
        if match is None:
            raise UnreadableError(self.at)
        self.at = match.end()
        raw = match[0]
        operator = self.text.index("<<", start)
        made = ShellNode(kind=NodeKind.HERE_DOCUMENT, start=operator, end=self.at, parent=node)
        node.children.append(made)
        delimiter = re.sub(r"\\(.)|[\"']", r"\1", raw, flags=re.DOTALL)
        self._pending.append(
            _HereDocument(made, delimiter, quoted=any(c in raw for c in "\"'\\"), strip=strip)
        )

    def _line_end(self) -> None:
        """A line feed that ends a line of code: the bodies of its here-documents follow it."""
        self.at += 1
        pending, self._pending = self._pending, []
        for document in pending:
            self._here_text(document)

    def _here_text(self, document: _HereDocument) -> None:  # noqa: C901 - one branch for each case
        start, text = self.at, self.text
        tabs = "\t*" if document.strip else ""
        # bash ends it at the parenthesis of the substitution around it, too, with a warning.
        last = re.compile(rf"(?m)^{tabs}{re.escape(document.delimiter)}$").search(
            text, start, self.end
        )
        body_end = last.start() if last else self.end
        body = ShellNode(kind=NodeKind.HERE_TEXT, start=start, end=body_end, parent=document.node)
        document.node.children.append(body)
        if not document.quoted:
            outer, self.end = self.end, body_end
            while self.at < self.end:
                quoted = _PLAIN_HERE.match(text, self.at, self.end)
                if quoted:
                    self.at = quoted.end()
                elif text[self.at] == "\\":
                    self.at += 2
                elif not self._expansion(body, is_quoted=True):
                    self.at += 1
            self.end = outer
        self.at = min(last.end() if last else self.end, self.end)
        closing = self.at
        for node in (document.node, *document.node.ancestors()):
            if node.end >= closing or node.kind is NodeKind.PROGRAM:
                break
            if node.is_open:
                break
            node.end = closing
        # The line feed after the delimiter ends this line as well.
        if last and self.at < self.end:
            self.at += 1

    # Words.

    def _word(self, node: ShellNode) -> None:
        """One word with all that stands in it; substitutions become children of `node`."""
        start, text = self.at, self.text
        while self.at < self.end:
            literal = _LITERAL.match(text, self.at, self.end)
            if literal:
                self.at = literal.end()
            elif text[self.at] == "(" and self.at > start and self._opens_in_word(start):
                self._group_in_word(node)
            elif not self._part_of_word(node):
                break
        if self.at == start:
            raise UnreadableError(start)

    def _opens_in_word(self, start: int) -> bool:
        """Whether a parenthesis belongs to the word: `a=(…)` or an extended pattern such as `!(…)`."""
        before = self.text[self.at - 1]
        if before == "=":
            return bool(_NAME.match(self.text, start))
        return before in "?*+@!"

    def _group_in_word(self, node: ShellNode) -> None:
        """`(…)` of an array or a pattern: words, blanks and bars."""
        self._deeper()
        self.at += 1
        text = self.text
        is_array = text[self.at - 2] == "="
        while self.at < self.end and text[self.at] != ")":
            letter = text[self.at]
            if letter == "\n":
                self._line_end()
            elif letter in " \t":
                self.at += 1
            elif letter == "#" and is_array and text[self.at - 1] in " \t\n(":
                self._comment()
            elif letter == "(":
                self._group_in_word(node)
            elif not self._part_of_word(node):
                literal = _LITERAL.match(text, self.at, self.end)
                self.at = literal.end() if literal else self.at + 1
        self._expect(")")
        self.depth -= 1

    def _part_of_word(self, node: ShellNode) -> bool:
        """A quoted part, an expansion or a substitution; False if none begins here."""
        text, at = self.text, self.at
        letter = text[at]
        if letter == "\\":
            self.at = min(at + 2, self.end)
        elif letter == "'":
            self._through("'", at + 1)
        elif letter == '"':
            self._double_quoted(node)
        elif letter in "$`":
            if text.startswith("$'", at):
                self._ansi_quoted()
            elif not self._expansion(node, is_quoted=False):
                self.at += 1
        elif letter in "<>" and text[at + 1 : at + 2] == "(":
            self._substitution(node, at, 2)
        else:
            return False
        return True

    def _through(self, letter: str, at: int) -> None:
        end = self.text.find(letter, at, self.end)
        if end < 0:
            raise UnreadableError(at - 1)
        self.at = end + 1

    def _ansi_quoted(self) -> None:
        match = _ANSI_QUOTED.match(self.text, self.at, self.end)
        if match is None:
            raise UnreadableError(self.at)
        self.at = match.end()

    def _double_quoted(self, node: ShellNode) -> None:
        start, text = self.at, self.text
        self.at += 1
        while self.at < self.end:
            quoted = _QUOTED.match(text, self.at, self.end)
            if quoted:
                self.at = quoted.end()
                continue
            letter = text[self.at]
            if letter == '"':
                self.at += 1
                return
            if letter == "\\":
                self.at += 2
            elif not self._expansion(node, is_quoted=True):
                self.at += 1
        raise UnreadableError(start)

    def _expansion(self, node: ShellNode, *, is_quoted: bool) -> bool:
        """What begins with a dollar sign or a backquote; False for a dollar sign that is only one."""
        text, at = self.text, self.at
        if text[at] == "`":
            self._backquoted(node)
            return True
        following = text[at + 1 : at + 2] if at + 1 < self.end else ""
        if following == "(":
            if text.startswith("((", at + 1) and at not in self._no_arithmetic:
                count = len(node.children)
                self.at = at + 3
                if self._arithmetic(node):
                    return True
                self._no_arithmetic.add(at)
                del node.children[count:]
            self._substitution(node, at, 2)
        elif following == "{":
            self._braced(node, is_quoted=is_quoted)
        elif following == "[":
            self._through("]", at + 2)
        elif following and (following in "?$#@*!-_" or following.isalnum()):
            name = _NAME.match(text, at + 1, self.end)
            self.at = name.end() if name else at + 2
        else:
            return False
        return True

    def _braced(self, node: ShellNode, *, is_quoted: bool) -> None:
        """`${…}`. Inside double quotes a single quote is plain, but in a pattern."""
        start, text = self.at, self.text
        self._deeper()
        self.at += 2
        head = _PARAMETER.match(text, self.at, self.end)
        self.at = head.end() if head else self.at
        quotes = not is_quoted or text[self.at : self.at + 1] in ("#", "%", "/", "^", ",")
        while self.at < self.end:
            plain = _BRACED.match(text, self.at, self.end)
            if plain:
                self.at = plain.end()
                continue
            letter = text[self.at]
            if letter == "}":
                self.at += 1
                self.depth -= 1
                return
            if (letter == "'" and not quotes) or letter == "{":
                self.at += 1
            elif letter in "$`":
                if quotes and text.startswith("$'", self.at):
                    self._ansi_quoted()
                elif not self._expansion(node, is_quoted=is_quoted):
                    self.at += 1
            else:
                self._part_of_word(node)
        raise UnreadableError(start)

    def _arithmetic(self, node: ShellNode) -> bool:
        """After `((`: through `))`; False, without a place, if it turns out to be two parentheses."""
        self._deeper()
        depth, text = 0, self.text
        while self.at < self.end:
            plain = _ARITHMETIC.match(text, self.at, self.end)
            if plain:
                self.at = plain.end()
                continue
            letter = text[self.at]
            if letter == "(":
                depth += 1
                self.at += 1
            elif letter == ")":
                if depth:
                    depth -= 1
                    self.at += 1
                    continue
                self.depth -= 1
                if text[self.at + 1 : self.at + 2] != ")" or self.at + 2 > self.end:
                    return False
                self.at += 2
                return True
            else:
                depth_before = self.depth
                try:
                    self._part_of_word(node)
                except UnreadableError:
                    self.depth = depth_before - 1
                    return False
        self.depth -= 1
        return False

    def _substitution(self, parent: ShellNode, start: int, length: int) -> None:
        node = self._open(NodeKind.SUBSTITUTION, parent, start)
        self.at = start + length
        self._list(node, frozenset())
        self._expect(")")
        self._close(node)

    def _backquoted(self, parent: ShellNode) -> None:
        start = self.at
        match = _BACKQUOTED.match(self.text, start, self.end)
        if match is None:
            raise UnreadableError(start)
        node = self._open(NodeKind.SUBSTITUTION, parent, start)
        outer, self.end = self.end, match.end() - 1
        self.at = start + 1
        self._list(node, frozenset())
        if self.at < self.end:
            raise UnreadableError(self.at)
        self.end, self.at = outer, match.end()
        self._close(node)

    # Places.

    def _open(
        self, kind: NodeKind, parent: ShellNode, start: int | None = None, word: str = ""
    ) -> ShellNode:
        self._deeper()
        begin = self.at if start is None else start
        node = self._part(kind, parent, begin)
        node.word = word
        node.is_open = True
        return node

    def _close(self, node: ShellNode) -> ShellNode:
        self.depth -= 1
        node.is_open = False
        node.end = self.at
        return node

    @staticmethod
    def _part(kind: NodeKind, parent: ShellNode, start: int) -> ShellNode:
        node = ShellNode(kind=kind, start=start, end=start, parent=parent)
        parent.children.append(node)
        return node

    def _undo(self, node: ShellNode, start: int) -> None:
        """Drop `node`, the last child of its parent, and go back to `start`."""
        if node.parent is not None:
            node.parent.children.remove(node)
        self.depth -= 1
        self.at = start

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError(self.at)

    def _refuse(self) -> NoReturn:
        raise UnreadableError(self.at)

    def _expect(self, letter: str) -> None:
        if self.at >= self.end or self.text[self.at] != letter:
            raise UnreadableError(self.at)
        self.at += 1

    def _blanks(self) -> bool:
        """Skip blanks and comments; whether anything is left."""
        blanks = BLANKS.match(self.text, self.at, self.end)
        if blanks:
            self.at = blanks.end()
        begins_word = self.at == 0 or self.text[self.at - 1] in " \t\n;&|()`"
        if begins_word and self.at < self.end and self.text[self.at] == "#":
            self._comment()
        return self.at < self.end

    def _comment(self) -> None:
        end = self.text.find("\n", self.at, self.end)
        self.at = self.end if end < 0 else end

    def _skip_lines(self) -> None:
        """Skip blanks, comments and line feeds, with the here-documents that begin after one."""
        while self._blanks() and self.text[self.at] == "\n":
            self._line_end()

# SPDX-License-Identifier: Apache-2.0
"""Pure. From text to the tree of statements: a parser of bash that reads each character a bounded number of times.

Grammar: https://www.gnu.org/software/bash/manual/bash.html#Shell-Syntax, where bash 5.2 differs from it, bash.
A part that it cannot read ends with its line, and the rest is read on.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from msgspec import Struct

from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST: Final = 200
_FRAMES: Final = 8  # calls of Python for each level of nesting, at most
_MOST_UNREAD: Final = 20  # parts of one program; each may be read to the end once
_BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)+")
_LITERAL: Final = re.compile(r"[^\s\"'`$\\<>|&;()]+")
_QUOTED: Final = re.compile(r"[^\"\\$`]+")
_BRACED: Final = re.compile(r"[^\"'`$\\{}]+")
_ARITHMETIC: Final = re.compile(r"[^\"'`$\\()]+")
_TEST_TEXT: Final = re.compile(r"[^\"'`$\\\s<>\]#]+")
_PORTABLE: Final = re.compile(r"[ \t]+-p(?=[ \t])")
_FUNCTION_NAME: Final = re.compile(r"[^\s\"'`$\\<>|&;()]+")
_EMPTY_PARENTHESES: Final = re.compile(r"\([ \t]*\)")
_COPROCESS_NAME: Final = re.compile(
    r"[ \t]+[A-Za-z_]\w*[ \t]+(?=[({]|(?:if|while|until|for|case|select)\s|\[\[)"
)
_PARAMETER: Final = re.compile(r"[!#]?(?:\w+|[?$#@*!-])?")
_ANSI_QUOTED: Final = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BACKQUOTED: Final = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
_PLAIN_HERE: Final = re.compile(r"[^\\$`]+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]\n]*\])?\+?=")
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[")
_REDIRECTION: Final = re.compile(
    r"(?:\d+|\{[A-Za-z_]\w*\})?(<<<|<<-?|<>|>>|>\||[<>]&|[<>](?!\())|&>>?"
)
_RESERVED: Final = re.compile(r"(?:[a-z]+|[{}!]|\[\[)(?=[\s;&|()<>]|\\\n|\Z)")
_FUNCTION: Final = re.compile(r"[^\s\"'`$\\<>|&;()=]+[ \t]*\([ \t]*\)")
_DELIMITER: Final = re.compile(r"(?:\\.|\"[^\"]*\"|'[^']*'|[^\s<>|&;()\"'\\])+", re.DOTALL)
_END_OF_WORD: Final = frozenset(" \t\n;&|()<>")
_DECLARATIONS: Final = frozenset({"export", "local", "readonly", "declare", "typeset", "unset"})
_OPENERS: Final = frozenset(
    {"if", "while", "until", "for", "select", "case", "function", "{", "[["}
)
_CLOSERS: Final = frozenset({"then", "fi", "do", "done", "esac", "elif", "else", "}", "in"})


class UnreadPart(Struct, frozen=True):
    """A stretch that the parser could not read. Offsets in characters."""

    start: int
    end: int


class SyntaxTree(Struct, frozen=True, kw_only=True):
    """A program's statements. `text` has one ASCII character for each character of the source."""

    text: str
    program: ShellNode
    unread: tuple[UnreadPart, ...]


def ascii_form(text: str) -> str:
    """`text` with every other character replaced by x, of the same length.

    A carriage return before a line feed becomes a blank: bash's view of it is a rule of its own.
    """
    text = without_expressions(text)
    plain = text if text.isascii() else re.sub(r"[^\x00-\x7f]", "x", text)
    return plain.replace("\r\n", " \n") if "\r" in plain else plain


def without_expressions(text: str) -> str:
    """`text` with `${{ … }}`, which GitHub replaces before a shell reads it, as a plain word of the same length."""
    if "${{" not in text:
        return text
    return _EXPRESSION.sub(lambda match: "x" * len(match[0]), text)


_EXPRESSION: Final = re.compile(r"\$\{\{(?:(?!\$\{\{)[^\n])*?\}\}")


def syntax_tree(text: str) -> SyntaxTree:
    """The statements of `text`, which may be any text at all."""
    plain = ascii_form(text)
    parser = _Parser(plain)
    with _frames(_DEEPEST * _FRAMES):
        parser.read_program()
    return SyntaxTree(text=plain, program=parser.program, unread=tuple(parser.unread))


@contextmanager
def _frames(count: int) -> Iterator[None]:
    """Room for `count` more calls; calls of Python take no room on the stack of C."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + count)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class _UnreadableError(Exception):
    """The text at `offset` fits no rule of the grammar."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class _Document(Struct):
    """A here-document whose body begins after the line."""

    node: ShellNode
    delimiter: str
    quoted: bool
    strip: bool


class _Parser:
    """The text with a place in it. Each method reads one construct and moves the place behind it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.depth = 0
        self.program = ShellNode(kind=NodeKind.PROGRAM, start=0, end=len(text))
        self.unread: list[UnreadPart] = []
        self._pending: list[_Document] = []
        self._no_arithmetic: set[int] = set()

    # Programs and lists.

    def read_program(self) -> None:
        """All statements; what cannot be read is noted, and the next line begins anew."""
        while True:
            begin, count = self.at, len(self.program.children)
            try:
                self._list(self.program, frozenset())
                if self.at >= self.end:
                    break
                self._refuse()
            except _UnreadableError as error:
                self.depth = 0
                self.end = len(self.text)
                self._pending.clear()
                kept = self.program.children
                start = max(kept[-1].end if len(kept) > count else begin, begin)
                self.unread.append(UnreadPart(min(error.offset, self.end - 1), self.end))
                line_end = self.text.find("\n", max(error.offset, start))
                if line_end < 0 or len(self.unread) >= _MOST_UNREAD:
                    break
                self.unread[-1] = UnreadPart(self.unread[-1].start, line_end)
                self.at = line_end + 1

    def _list(self, parent: ShellNode, stops: frozenset[str]) -> str:  # noqa: C901 - one branch for each case
        """Statements up to a word of `stops`, or to what closes the construct around; that word, or nothing."""
        text = self.text
        while True:
            self._skip_lines()
            if self.at >= self.end:
                return ""
            letter = text[self.at]
            if letter == ")" or text.startswith(";;", self.at) or text.startswith(";&", self.at):
                return ""
            word = _RESERVED.match(text, self.at, self.end)
            if word is not None and word[0] in stops:
                return word[0]
            if word is not None and word[0] in _CLOSERS and word[0] != "in":
                raise _UnreadableError(self.at)
            node = self._and_or(parent)
            self._blanks()
            if self.at >= self.end:
                return ""
            letter = text[self.at]
            if letter == "&":
                node.background = True
                self.at += 1
            elif letter == ";" and text[self.at : self.at + 2] not in (";;", ";&"):
                self.at += 1
            elif letter not in "\n;)":
                # `{ (a) }`, `if (a) then`: no separator is needed behind a compound command.
                word = _RESERVED.match(text, self.at, self.end)
                if word is None or word[0] not in stops:
                    raise _UnreadableError(self.at)

    def _and_or(self, parent: ShellNode) -> ShellNode:
        node = self._pipeline(parent)
        operators: list[str] = []
        children = [node]
        while True:
            self._blanks()
            operator = self.text[self.at : self.at + 2]
            if operator not in ("&&", "||") or self.at + 2 > self.end:
                break
            operators.append(operator)
            self.at += 2
            self._skip_lines()
            children.append(self._pipeline(parent))
        if not operators:
            return node
        return self._around(NodeKind.AND_OR, parent, children, operators)

    def _pipeline(self, parent: ShellNode) -> ShellNode:  # noqa: C901 - one branch for each case
        negations = []
        while True:
            self._blanks()
            word = _RESERVED.match(self.text, self.at, self.end)
            if word is not None and word[0] == "!":
                negations.append(self.at)
                self.at = word.end()
            elif word is not None and word[0] == "time" and self._times_compound(word.end()):
                option = _PORTABLE.match(self.text, word.end(), self.end)
                self.at = option.end() if option else word.end()
            else:
                break
        children = [self._command(parent)]
        while True:
            self._blanks()
            if self.text[self.at : self.at + 1] != "|" or self.at >= self.end:
                break
            if self.text[self.at + 1 : self.at + 2] == "|":
                break
            self.at += 2 if self.text[self.at + 1 : self.at + 2] == "&" else 1
            self._skip_lines()
            children.append(self._command(parent))
        node = children[0]
        if len(children) > 1:
            node = self._around(NodeKind.PIPELINE, parent, children, [])
        for start in reversed(negations):
            node = self._around(NodeKind.NEGATION, parent, [node], [])
            node.start = start
        return node

    def _times_compound(self, at: int) -> bool:
        """Whether `time` stands before what is no simple command; before one it is a wrapper like others."""
        for blank in (_PORTABLE, _BLANKS):
            after = blank.match(self.text, at, self.end)
            at = after.end() if after else at
        word = _RESERVED.match(self.text, at, self.end)
        return self.text[at : at + 1] == "(" or (
            word is not None and (word[0] in _OPENERS or word[0] == "!")
        )

    @staticmethod
    def _around(
        kind: NodeKind, parent: ShellNode, children: list[ShellNode], operators: list[str]
    ) -> ShellNode:
        """A node that takes the place of `children`, the last ones of `parent`."""
        made = ShellNode(kind=kind, start=children[0].start, end=children[-1].end, parent=parent)
        made.children = children
        made.operators = operators
        for child in children:
            child.parent = made
        del parent.children[-len(children) :]
        parent.children.append(made)
        return made

    # Commands.

    def _command(self, parent: ShellNode) -> ShellNode:
        self._blanks()
        text, at = self.text, self.at
        if at >= self.end:
            raise _UnreadableError(at)
        word = _RESERVED.match(text, at, self.end)
        name = word[0] if word is not None else ""
        if text[at] == "(":
            node = self._parentheses(parent)
        elif name in _OPENERS:
            node = self._compound(parent, name)
        elif name == "coproc":
            return self._coprocess(parent)
        elif name in _CLOSERS and name != "in":
            raise _UnreadableError(at)
        elif _FUNCTION.match(text, at, self.end):
            return self._function(parent, at)
        else:
            return self._simple(parent)
        self._redirections(node)
        return node

    def _parentheses(self, parent: ShellNode) -> ShellNode:
        start = self.at
        if self.text.startswith("((", start) and start not in self._no_arithmetic:
            node = self._open(NodeKind.TEST, parent)
            self.at += 2
            if self._arithmetic(node):
                return self._close(node)
            self._no_arithmetic.add(start)
            self._undo(node, start)
        node = self._open(NodeKind.SUBSHELL, parent)
        self.at += 1
        self._list(node, frozenset())
        self._expect(")")
        return self._close(node)

    def _compound(self, parent: ShellNode, name: str) -> ShellNode:
        start = self.at
        self.at += len(name)
        match name:
            case "{":
                node = self._open(NodeKind.GROUP, parent, start)
                self._body(node, "}")
            case "if":
                node = self._open(NodeKind.IF, parent, start)
                self._branches(node)
            case "while" | "until":
                node = self._open(NodeKind.LOOP, parent, start, name)
                self._condition(node, "do")
                self._do(node)
            case "for" | "select":
                node = self._open(NodeKind.LOOP, parent, start, name)
                self._for(node)
            case "case":
                node = self._open(NodeKind.CASE, parent, start)
                self._case(node)
            case "[[":
                node = self._open(NodeKind.TEST, parent, start)
                self._test(node)
            case _:
                return self._function(parent, start)
        return self._close(node)

    def _body(self, node: ShellNode, last: str) -> None:
        if self._list(node, frozenset({last})) != last:
            raise _UnreadableError(self.at)
        self.at += len(last)

    def _condition(self, node: ShellNode, last: str) -> None:
        first = len(node.children)
        self._body(node, last)
        for child in node.children[first:]:
            child.is_condition = True

    def _branches(self, node: ShellNode) -> None:
        """After `if` or `elif`: the condition, the branch, and the branches that follow."""
        outer = node
        while True:
            self._condition(node, "then")
            node.word = "then"
            begin = self.at
            word = self._list(node, frozenset({"elif", "else", "fi"}))
            start = self.at
            if node is not outer:
                node.end = max(start, begin)
            self.at += len(word)
            if word == "elif":
                node = self._part(NodeKind.ELIF, outer, start)
                continue
            if word == "else":
                node = self._part(NodeKind.ELSE, outer, start)
                word = self._list(node, frozenset({"fi"}))
                node.end = self.at
                self.at += len(word)
            if word != "fi":
                raise _UnreadableError(self.at)
            return

    def _do(self, loop: ShellNode) -> None:
        node = self._part(NodeKind.DO, loop, self.at - 2)
        self._body(node, "done")
        node.end = self.at

    def _for(self, node: ShellNode) -> None:
        self._blanks()
        if self.text.startswith("((", self.at):
            self.at += 2
            if not self._arithmetic(node):
                raise _UnreadableError(self.at)
        else:
            self._word(node)
            self._skip_lines()
            word = _RESERVED.match(self.text, self.at, self.end)
            if word is not None and word[0] == "in":
                self.at = word.end()
                while self._blanks() and self.text[self.at] not in ";\n":
                    self._word(node)
        self._blanks()
        if self.text[self.at : self.at + 1] == ";":
            self.at += 1
        self._skip_lines()
        word = _RESERVED.match(self.text, self.at, self.end)
        if word is None or word[0] not in ("do", "{"):
            raise _UnreadableError(self.at)
        self.at = word.end()
        if word[0] == "do":
            self._do(node)
        else:
            body = self._part(NodeKind.DO, node, word.start())
            self._body(body, "}")
            body.end = self.at

    def _case(self, node: ShellNode) -> None:  # noqa: C901 - one branch for each case
        self._blanks()
        self._word(node)
        self._skip_lines()
        word = _RESERVED.match(self.text, self.at, self.end)
        if word is None or word[0] != "in":
            raise _UnreadableError(self.at)
        self.at = word.end()
        while True:
            self._skip_lines()
            word = _RESERVED.match(self.text, self.at, self.end)
            if word is not None and word[0] == "esac":
                self.at = word.end()
                return
            item = self._part(NodeKind.CASE_ITEM, node, self.at)
            if self.text[self.at : self.at + 1] == "(":
                self.at += 1
            while True:
                self._blanks()
                self._word(item)
                self._blanks()
                if self.text[self.at : self.at + 1] != "|":
                    break
                self.at += 1
            self._expect(")")
            self._list(item, frozenset({"esac"}))
            item.end = self.at
            for ending in (";;&", ";;", ";&"):
                if self.text.startswith(ending, self.at):
                    self.at += len(ending)
                    break

    def _test(self, node: ShellNode) -> None:
        """`[[ … ]]`: operators and words up to `]]`; the words matter by their substitutions alone."""
        text = self.text
        is_first = True
        while self.at < self.end:
            letter = text[self.at]
            if letter == "\n":
                self._line_end()
            elif letter in " \t":
                self.at += 1
            elif is_first and letter == "#":
                self._comment()
            elif (
                is_first
                and text.startswith("]]", self.at)
                and (self.at + 2 >= self.end or text[self.at + 2] in _END_OF_WORD)
            ):
                self.at += 2
                return
            elif not self._part_of_word(node):
                literal = _TEST_TEXT.match(text, self.at, self.end)
                self.at = literal.end() if literal else self.at + 1
            is_first = letter in " \t\n"
        raise _UnreadableError(self.at)

    def _function(self, parent: ShellNode, start: int) -> ShellNode:
        node = self._open(NodeKind.FUNCTION, parent, start)
        if self.at > start:
            self._blanks()
        name = self.at
        literal = _FUNCTION_NAME.match(self.text, name, self.end)
        if literal is None:
            raise _UnreadableError(name)
        self.at = literal.end()
        node.word = literal[0]
        self._blanks()
        parentheses = _EMPTY_PARENTHESES.match(self.text, self.at, self.end)
        if parentheses:
            self.at = parentheses.end()
        self._skip_lines()
        opener = _RESERVED.match(self.text, self.at, self.end)
        if self.text[self.at : self.at + 1] != "(" and (
            opener is None or opener[0] not in _OPENERS or opener[0] == "function"
        ):
            raise _UnreadableError(self.at)
        self._command(node)
        return self._close(node)

    def _coprocess(self, parent: ShellNode) -> ShellNode:
        self.at += len("coproc")
        named = _COPROCESS_NAME.match(self.text, self.at, self.end)
        self.at = named.end() if named else self.at
        node = self._command(parent)
        node.background = True
        return node

    def _simple(self, parent: ShellNode) -> ShellNode:  # noqa: C901 - one branch for each case
        start = self.at
        node = self._open(NodeKind.COMMAND, parent)
        assigned: list[tuple[int, int]] = []
        text = self.text
        while self._blanks() and text[self.at] not in "\n;|)":
            if self._redirection(node):
                continue
            if text[self.at] in "&(":
                break
            begin = self.at
            is_assignment = not node.words and self._begins_assignment()
            self._word(node)
            (assigned if is_assignment else node.words).append((begin, self.at))
        if self.at == start:
            raise _UnreadableError(start)
        if node.words:
            first = slice(*node.words[0])
            node.word = text[first]
            if node.word in _DECLARATIONS and not assigned:
                node.kind = NodeKind.DECLARATION
            elif node.word == "[":
                node.kind, node.word = NodeKind.TEST, ""
        elif assigned:
            node.kind = NodeKind.ASSIGNMENT
            node.words = assigned
        self._close(node)
        last = max((end for _, end in (*assigned, *node.words, *node.redirections)), default=start)
        node.end = max(last, start)
        return node

    def _begins_assignment(self) -> bool:
        if _ASSIGNS.match(self.text, self.at, self.end):
            return True
        subscript = _SUBSCRIPT.match(self.text, self.at, self.end)
        if subscript is None:
            return False
        # `a[$(f x)]=1`: the subscript holds any word.
        at, node = self.at, ShellNode(kind=NodeKind.COMMAND, start=0, end=0)
        try:
            self._word(node)
        except _UnreadableError:
            self.at = at
            return False
        written = self.text[at : self.at]
        self.at = at
        return bool(re.match(r"\w+\[[^\n]*\]\+?=", written))

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
            raise _UnreadableError(self.at)
        self.at = match.end()
        raw = match[0]
        operator = self.text.index("<<", start)
        made = ShellNode(kind=NodeKind.HERE_DOCUMENT, start=operator, end=self.at, parent=node)
        node.children.append(made)
        delimiter = re.sub(r"\\(.)|[\"']", r"\1", raw, flags=re.DOTALL)
        self._pending.append(
            _Document(made, delimiter, quoted=any(c in raw for c in "\"'\\"), strip=strip)
        )

    def _line_end(self) -> None:
        """A line feed that ends a line of code: the bodies of its here-documents follow it."""
        self.at += 1
        pending, self._pending = self._pending, []
        for document in pending:
            self._here_text(document)

    def _here_text(self, document: _Document) -> None:  # noqa: C901 - one branch for each case
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
            raise _UnreadableError(start)

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
            raise _UnreadableError(at - 1)
        self.at = end + 1

    def _ansi_quoted(self) -> None:
        match = _ANSI_QUOTED.match(self.text, self.at, self.end)
        if match is None:
            raise _UnreadableError(self.at)
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
        raise _UnreadableError(start)

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
        raise _UnreadableError(start)

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
                except _UnreadableError:
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
            raise _UnreadableError(start)
        node = self._open(NodeKind.SUBSTITUTION, parent, start)
        outer, self.end = self.end, match.end() - 1
        self.at = start + 1
        self._list(node, frozenset())
        if self.at < self.end:
            raise _UnreadableError(self.at)
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
        if self.depth > _DEEPEST:
            raise _UnreadableError(self.at)

    def _refuse(self) -> NoReturn:
        raise _UnreadableError(self.at)

    def _expect(self, letter: str) -> None:
        if self.at >= self.end or self.text[self.at] != letter:
            raise _UnreadableError(self.at)
        self.at += 1

    def _blanks(self) -> bool:
        """Skip blanks and comments; whether anything is left."""
        blanks = _BLANKS.match(self.text, self.at, self.end)
        if blanks:
            self.at = blanks.end()
        if self.at < self.end and self.text[self.at] == "#" and self._begins_word():
            self._comment()
        return self.at < self.end

    def _begins_word(self) -> bool:
        return self.at == 0 or self.text[self.at - 1] in " \t\n;&|()`"

    def _comment(self) -> None:
        end = self.text.find("\n", self.at, self.end)
        self.at = self.end if end < 0 else end

    def _skip_lines(self) -> None:
        """Skip blanks, comments and line feeds, with the here-documents that begin after one."""
        while self._blanks() and self.text[self.at] == "\n":
            self._line_end()

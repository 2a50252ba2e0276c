# SPDX-License-Identifier: Apache-2.0
"""Pure. From text to the tree of statements: a parser of bash that reads each character a bounded number of times.

Grammar: https://www.gnu.org/software/bash/manual/bash.html#Shell-Syntax, where bash 5.2 differs from it, bash.
A part that it cannot read ends with its line, and the rest is read on.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode
from ci_doctor.syntax.word_reader import BLANKS, DEEPEST, UnreadableError, WordReader

_FRAMES: Final = 8  # calls of Python for each level of nesting, at most
_MOST_UNREAD: Final = 20  # parts of one program; each may be read to the end once
_TEST_TEXT: Final = re.compile(r"[^\"'`$\\\s<>\]#]+")
_PORTABLE: Final = re.compile(r"[ \t]+-p(?=[ \t])")
_FUNCTION_NAME: Final = re.compile(r"[^\s\"'`$\\<>|&;()]+")
_EMPTY_PARENTHESES: Final = re.compile(r"\([ \t]*\)")
_COPROCESS_NAME: Final = re.compile(
    r"[ \t]+[A-Za-z_]\w*[ \t]+(?=[({]|(?:if|while|until|for|case|select)\s|\[\[)"
)
_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]\n]*\])?\+?=")
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[")
_RESERVED: Final = re.compile(r"(?:[a-z]+|[{}!]|\[\[)(?=[\s;&|()<>]|\\\n|\Z)")
_FUNCTION: Final = re.compile(r"[^\s\"'`$\\<>|&;()=]+[ \t]*\([ \t]*\)")
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
    with _frames(DEEPEST * _FRAMES):
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


class _Parser(WordReader):
    """The statements of a text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.program = ShellNode(kind=NodeKind.PROGRAM, start=0, end=len(text))
        self.unread: list[UnreadPart] = []

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
            except UnreadableError as error:
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
                raise UnreadableError(self.at)
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
                    raise UnreadableError(self.at)

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
        for blank in (_PORTABLE, BLANKS):
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
            raise UnreadableError(at)
        word = _RESERVED.match(text, at, self.end)
        name = word[0] if word is not None else ""
        if text[at] == "(":
            node = self._parentheses(parent)
        elif name in _OPENERS:
            node = self._compound(parent, name)
        elif name == "coproc":
            return self._coprocess(parent)
        elif name in _CLOSERS and name != "in":
            raise UnreadableError(at)
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
            raise UnreadableError(self.at)
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
                raise UnreadableError(self.at)
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
                raise UnreadableError(self.at)
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
            raise UnreadableError(self.at)
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
            raise UnreadableError(self.at)
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
        raise UnreadableError(self.at)

    def _function(self, parent: ShellNode, start: int) -> ShellNode:
        node = self._open(NodeKind.FUNCTION, parent, start)
        if self.at > start:
            self._blanks()
        name = self.at
        literal = _FUNCTION_NAME.match(self.text, name, self.end)
        if literal is None:
            raise UnreadableError(name)
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
            raise UnreadableError(self.at)
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
            raise UnreadableError(start)
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
        except UnreadableError:
            self.at = at
            return False
        written = self.text[at : self.at]
        self.at = at
        return bool(re.match(r"\w+\[[^\n]*\]\+?=", written))

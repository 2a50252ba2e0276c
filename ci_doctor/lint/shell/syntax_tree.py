# SPDX-License-Identifier: Apache-2.0
"""Pure. From text to the tree of statements, by tree-sitter-bash: one walk, without recursion."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode

if TYPE_CHECKING:
    import tree_sitter

_KINDS: Final = {
    "command": NodeKind.COMMAND,
    "declaration_command": NodeKind.DECLARATION,
    "unset_command": NodeKind.DECLARATION,
    "variable_assignment": NodeKind.ASSIGNMENT,
    "variable_assignments": NodeKind.ASSIGNMENT,
    "test_command": NodeKind.TEST,
    "list": NodeKind.AND_OR,
    "pipeline": NodeKind.PIPELINE,
    "negated_command": NodeKind.NEGATION,
    "subshell": NodeKind.SUBSHELL,
    "compound_statement": NodeKind.GROUP,
    "if_statement": NodeKind.IF,
    "elif_clause": NodeKind.ELIF,
    "else_clause": NodeKind.ELSE,
    "while_statement": NodeKind.LOOP,
    "for_statement": NodeKind.LOOP,
    "c_style_for_statement": NodeKind.LOOP,
    "do_group": NodeKind.DO,
    "case_statement": NodeKind.CASE,
    "case_item": NodeKind.CASE_ITEM,
    "function_definition": NodeKind.FUNCTION,
    "command_substitution": NodeKind.SUBSTITUTION,
    "process_substitution": NodeKind.SUBSTITUTION,
    "redirected_statement": NodeKind.REDIRECTED,
    "heredoc_redirect": NodeKind.HERE_DOCUMENT,
    "heredoc_body": NodeKind.HERE_TEXT,
}
_KEEP_SYNTAX: Final = frozenset(
    {
        NodeKind.COMMAND,
        NodeKind.DECLARATION,
        NodeKind.ASSIGNMENT,
        NodeKind.HERE_DOCUMENT,
        NodeKind.TEST,
    }
)
_WITHIN_WORDS: Final = frozenset({NodeKind.COMMAND, NodeKind.DECLARATION, NodeKind.ASSIGNMENT})


class SyntaxHole(Struct, frozen=True):
    """A stretch that the parser could not read. Offsets in characters."""

    start: int
    end: int


class SyntaxTree(Struct, frozen=True, kw_only=True):
    """A program's statements. `text` has one ASCII character for each character of the source."""

    text: str
    program: ShellNode
    holes: tuple[SyntaxHole, ...]


def ascii_form(text: str) -> str:
    """`text` with every other character replaced by x, so that offsets in bytes are offsets in characters.

    A carriage return before a line feed becomes a blank: the parser reads lines, bash's view of it
    is a rule of its own. A backslash at the very end, which continues nothing, becomes a blank, too.
    """
    text = without_expressions(text)
    plain = text if text.isascii() else re.sub(r"[^\x00-\x7f]", "x", text)
    plain = plain.replace("\r\n", " \n") if "\r" in plain else plain
    body = plain.rstrip()
    return f"{body[:-1]} {plain[len(body) :]}" if body.endswith("\\") else plain


def without_expressions(text: str) -> str:
    """`text` with `${{ … }}`, which GitHub replaces before a shell reads it, as a plain word of the same length."""
    if "${{" not in text:
        return text
    return _EXPRESSION.sub(lambda match: "x" * len(match[0]), text)


_EXPRESSION: Final = re.compile(r"\$\{\{[^\n]*?\}\}")


@cache
def _parser() -> tree_sitter.Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def syntax_tree(text: str) -> SyntaxTree:
    """The statements of `text`, which may be any text at all."""
    plain = ascii_form(text)
    tree = _parser().parse(plain.encode("ascii"))
    walk = _TreeWalk(plain)
    walk.walk(tree.walk())
    if tree.root_node.has_error and not walk.holes:
        walk.holes.append(_missing(tree.root_node))
    return SyntaxTree(text=plain, program=walk.program, holes=tuple(walk.holes))


def _missing(root: tree_sitter.Node) -> SyntaxHole:
    """Where the parser made up a word that is not there: the first of them."""
    node = root
    while not node.is_missing:
        worse = [child for child in node.children if child.has_error or child.is_missing]
        if not worse:
            break
        node = worse[0]
    return SyntaxHole(node.start_byte, node.end_byte)


class _TreeWalk:
    """The walk. `open` are the nodes around the place where the cursor stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.program = ShellNode(kind=NodeKind.PROGRAM, start=0, end=len(text))
        self.holes: list[SyntaxHole] = []
        self.current = self.program

    def walk(self, cursor: tree_sitter.TreeCursor) -> None:
        around = [self.current]
        while True:
            if self._enter(cursor) and cursor.goto_first_child():
                around.append(self.current)
                continue
            self.current = around[-1]
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                left = around.pop()
                self.current = around[-1]
                # A level that made no node has the node of the level above it.
                if left is not self.current:
                    self._leave(left)

    def _enter(self, cursor: tree_sitter.TreeCursor) -> bool:
        """Make a node of what the cursor stands at; whether to look into it."""
        node = cursor.node
        if node is None:
            return False
        name = node.type
        kind = _KINDS.get(name)
        if kind is None:
            return self._enter_other(name, node)
        if kind is self.current.kind is NodeKind.AND_OR:
            return True
        if kind is NodeKind.ASSIGNMENT and self.current.kind in _WITHIN_WORDS:
            return True
        if kind is NodeKind.COMMAND and self._runs_over_lines(node):
            self.holes.append(SyntaxHole(node.start_byte, node.end_byte))
            return False
        self._make(kind, node)
        return True

    def _make(self, kind: NodeKind, node: tree_sitter.Node) -> None:
        parent, start = self.current, node.start_byte
        if kind is NodeKind.GROUP and self.text.startswith("((", start):
            kind = NodeKind.TEST
        made = ShellNode(kind=kind, start=start, end=node.end_byte, parent=parent)
        if kind in _KEEP_SYNTAX:
            made.syntax = node
        if kind in (NodeKind.LOOP, NodeKind.DECLARATION):
            made.word = re.split(r"[\s;(]", self.text[start : start + 12], maxsplit=1)[0]
        if parent.kind in (NodeKind.IF, NodeKind.ELIF):
            made.is_condition = parent.word != "then"
        elif parent.word in ("while", "until") and parent.kind is NodeKind.LOOP:
            made.is_condition = kind is not NodeKind.DO
        parent.children.append(made)
        self.current = made

    def _runs_over_lines(self, node: tree_sitter.Node) -> bool:
        """Whether the parser took words of the next line for arguments, as it does at times near here-documents."""
        if "\n" not in self.text[node.start_byte : node.end_byte]:
            return False
        end = node.start_byte
        for child in node.children:
            if "\n" in self.text[end : child.start_byte].replace("\\\n", ""):
                return True
            end = child.end_byte
        return False

    def _enter_other(self, name: str, node: tree_sitter.Node) -> bool:
        current = self.current
        if name == "ERROR":
            if self.text[node.start_byte : node.end_byte] == "&" and current.children:
                current.children[-1].background = True
            self.holes.append(SyntaxHole(node.start_byte, node.end_byte))
            return False
        if name in ("&&", "||") and current.kind in (NodeKind.AND_OR, NodeKind.HERE_DOCUMENT):
            current.operators.append(name)
        elif name == "then":
            current.word = name
        elif name == "&" and current.children:
            last = current.children[-1]
            if not self.text[last.end : node.start_byte].strip():
                last.background = True
        elif name == "command_name" or (
            name == "word" and current.kind is NodeKind.FUNCTION and not current.word
        ):
            current.word = self.text[node.start_byte : node.end_byte]
        return name != "comment"

    def _leave(self, node: ShellNode) -> None:
        """A node whose children are complete. What only redirects gives its place to what it redirects."""
        if node.kind is NodeKind.PIPELINE and node.children[:1]:
            self._bind_pipe(node)
            return
        if node.kind is not NodeKind.REDIRECTED or node is not self._last_child(node.parent):
            return
        parent = node.parent
        if parent is None or not node.children:
            return
        body = node.children[0]
        documents = [each for each in node.children if each.kind is NodeKind.HERE_DOCUMENT]
        rest = [each for each in node.children[1:] if each.kind is not NodeKind.HERE_DOCUMENT]
        body.end = max(body.end, node.end)
        body.children += [*documents, *rest]
        for child in (*documents, *rest):
            child.parent = body
        made = body
        for document in documents:
            made = _joined(made, document)
        if made.kind is parent.kind is NodeKind.AND_OR:
            self._splice(parent, made)
            return
        made.parent = parent
        made.is_condition = node.is_condition
        parent.children[-1] = made

    def _bind_pipe(self, node: ShellNode) -> None:
        """`a > log && b 2>&1 | tee x`: the parser pipes the whole list, the shell pipes `b`."""
        outer, parent = node.children[0], node.parent
        if outer.kind is not NodeKind.AND_OR or parent is None:
            return
        if node is not self._last_child(parent):
            return
        first = outer.children.pop()
        node.children[0] = first
        first.parent = node
        node.start = first.start
        outer.children.append(node)
        outer.end = node.end
        outer.is_condition, node.is_condition = node.is_condition, False
        node.parent = outer
        outer.parent = parent
        parent.children[-1] = outer
        if parent.kind is NodeKind.AND_OR:
            self._splice(parent, outer)

    @staticmethod
    def _splice(parent: ShellNode, made: ShellNode) -> None:
        parent.children[-1:] = made.children
        # Redirections of a list stand after its last command: `a && b > log || c`.
        parent.operators += made.operators
        for child in made.children:
            child.parent = parent

    @staticmethod
    def _last_child(parent: ShellNode | None) -> ShellNode | None:
        return parent.children[-1] if parent is not None and parent.children else None


def _joined(left: ShellNode, document: ShellNode) -> ShellNode:
    """`cmd <<EOF | tee log`, `cmd <<EOF || exit 1`: the parser puts what follows into the redirection."""
    followers = [each for each in document.children if each.kind is not NodeKind.HERE_TEXT]
    if not followers:
        return left
    document.children = [each for each in document.children if each not in followers]
    is_list = bool(document.operators)
    kind = NodeKind.AND_OR if is_list else NodeKind.PIPELINE
    if not is_list and len(followers) == 1 and followers[0].kind is NodeKind.PIPELINE:
        followers = followers[0].children
    made = ShellNode(kind=kind, start=left.start, end=left.end, children=[left, *followers])
    made.operators = document.operators
    for child in made.children:
        child.parent = made
    return made

# SPDX-License-Identifier: Apache-2.0
"""Pure. A shell program as its rules see it: statements, words, functions, places."""

from __future__ import annotations

import bisect
import re
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from ci_doctor.lint.excerpt import LONGEST_EXCERPT, excerpt_of
from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode
from ci_doctor.lint.shell.shell_words import CommandWords, unquoted, unwrapped
from ci_doctor.lint.violation import Edit, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_doctor.lint.shell.shell_source import ShellSource
    from ci_doctor.lint.shell.syntax_tree import SyntaxTree

Answer = TypeVar("Answer")


class ShellProgram:
    """The tree of one source, with what is asked of it more than once."""

    def __init__(self, source: ShellSource, tree: SyntaxTree) -> None:
        self.source = source
        self.tree = tree
        self.text = tree.text
        self.root = tree.program
        # Something ends it after a time, as `timeout 60 bash -c` does.
        self.is_limited = False
        # Each `source` with the program it means, as far as that is known.
        self.sourced_at: tuple[tuple[ShellNode, ShellProgram], ...] = ()
        self._answers: dict[object, object] = {}
        self._words: dict[int, CommandWords] = {}

    @cached_property
    def nodes(self) -> tuple[ShellNode, ...]:
        """All nodes, in the order of the text."""
        return tuple(self.root.descendants())

    @cached_property
    def commands(self) -> tuple[ShellNode, ...]:
        """All simple commands with a name."""
        return tuple(node for node in self.nodes if node.kind is NodeKind.COMMAND and node.word)

    @cached_property
    def by_name(self) -> dict[str, list[ShellNode]]:
        """The simple commands by the name as it is written."""
        names: dict[str, list[ShellNode]] = {}
        for node in self.commands:
            names.setdefault(node.word, []).append(node)
        return names

    @cached_property
    def functions(self) -> dict[str, ShellNode]:
        """The functions that this text defines; the last definition of a name holds."""
        return {node.word: node for node in self.nodes if node.kind is NodeKind.FUNCTION}

    def definition(self, name: str) -> tuple[ShellProgram, ShellNode] | None:
        """The function `name`, here or in a sourced file, with the program it stands in."""
        own = self.functions.get(name)
        if own is not None:
            return self, own
        for _, library in reversed(self.sourced_at):
            known = library.definition(name)
            if known is not None:
                return known
        return None

    def once(self, make: Callable[[ShellProgram], Answer]) -> Answer:
        """What `make` says of this program, asked for once: the walks of all rules share it."""
        if make not in self._answers:
            self._answers[make] = make(self)
        return cast("Answer", self._answers[make])

    def of(self, *kinds: NodeKind) -> Iterator[ShellNode]:
        """All nodes of `kinds`."""
        return (node for node in self.nodes if node.kind in kinds)

    def words(self, node: ShellNode) -> CommandWords:
        """The command that `node` runs, without wrappers."""
        known = self._words.get(id(node))
        if known is None:
            written = self.written_words(node)
            known = (
                unwrapped(tuple(unquoted(word) for word in written))
                if written
                else CommandWords("", ())
            )
            self._words[id(node)] = known
        return known

    def written_words(self, node: ShellNode) -> list[str]:
        """The words of a command with their quotes, without assignments and redirections."""
        return [self.text[start:end] for start, end in self.written_offsets(node)]

    def written_offsets(self, node: ShellNode) -> list[tuple[int, int]]:
        """Where these words begin and end."""
        return node.words

    def innermost(self, offset: int) -> ShellNode | None:
        """The smallest node around `offset`; None if it stands outside of the program."""
        node: ShellNode | None = self.root
        inner = None
        while node is not None:
            inner = node
            node = node.child_at(offset)
        return inner

    def of_node(self, node: ShellNode) -> str:
        """The text of `node`."""
        return self.text[node.start : node.end]

    def redirections(self, node: ShellNode) -> str:
        """The redirections of a command, as text."""
        return " ".join(self.text[start:end] for start, end in node.redirections)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def own_line(self, offset: int) -> int:
        """The 1-based line of this text at `offset`."""
        return bisect.bisect_right(self._line_starts, offset)

    def line(self, offset: int) -> int:
        """The 1-based line of the file at `offset`."""
        own = self.own_line(offset)
        lines = self.source.lines
        if lines is None:
            return own
        return lines[min(own, len(lines)) - 1] if lines else 1

    def place(self, node: ShellNode) -> Place:
        """Where `node` stands."""
        last = max(node.start, node.end - 1)
        return Place(file=self.source.file, line=self.line(node.start), end_line=self.line(last))

    def excerpt(self, node: ShellNode) -> str:
        """The line on which `node` begins, as it stands."""
        first = self.text.rfind("\n", 0, node.start) + 1
        end = self.text.find("\n", node.start)
        end = len(self.text) if end < 0 else end
        if node.start - first > LONGEST_EXCERPT // 2:
            first = node.start
        return excerpt_of(self.source.text[first:end])

    def edits(self, *changes: tuple[int, int, str]) -> tuple[Edit, ...]:
        """Replacements of (start, end, text) in offsets of this text; none if it does not stand in its file as it is."""
        base = self.source.offset
        if base is None:
            return ()
        return tuple(
            Edit(file=self.source.file, start=base + start, end=base + end, text=text)
            for start, end, text in changes
        )

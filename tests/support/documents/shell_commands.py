# SPDX-License-Identifier: Apache-2.0
"""Pure. The statements of a block of shell, and the command lines of ci-doctor in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Tree

SHELLS = {"sh", "bash", "shell", "console"}
_TOOL = "ci-doctor"


@dataclass(frozen=True)
class Statement:
    """A statement of a block: its text, the line in the block (from 0), and what the page shows that it prints."""

    line: int
    text: str
    shown: str | None = None


def statements(language: str, text: str) -> list[Statement]:
    """The statements of a block; in a console block those after `$ `, each with the lines below it."""
    if language == "console":
        return list(_of_console(text))
    root = _parse(text).root_node
    own = [node for node in root.named_children if node.type != "comment"]
    return [
        Statement(node.start_point.row, _with_comment(text, node))
        for node in own
        if node.start_point.row
        not in {other.end_point.row for other in own if other.start_byte < node.start_byte}
    ]


def tool_commands(text: str) -> list[tuple[str, ...]]:
    """The words of each ci-doctor in a script, without its name; also of one that another command starts after `--`."""
    found = []
    for node in _commands(_parse(text).root_node):
        words = _words(node)
        while _TOOL in words:
            words = words[words.index(_TOOL) + 1 :]
            found.append(_own_words(words))
    return found


def unreadable(text: str) -> bool:
    """Whether a shell's grammar does not cover the text."""
    return _parse(text).root_node.has_error


def _own_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """What an ellipsis stands for is not known, and what follows a second ci-doctor belongs to that."""
    if _TOOL in words:
        words = words[: words.index(_TOOL) + 1]
    return tuple(word for word in words if word != "…")


def _of_console(text: str) -> Iterator[Statement]:
    for part in re.finditer(r"^\$ (.*(?:\n> .*)*)\n?((?:(?!\$ ).*\n?)*)", text, re.MULTILINE):
        line = text[: part.start()].count("\n")
        yield Statement(line, part[1].replace("\n> ", "\n"), part[2])


def _with_comment(text: str, node: Node) -> str:
    """The statement to the end of its last line: a comment there may name its exit status."""
    lines = text.splitlines()
    return "\n".join(lines[node.start_point.row : node.end_point.row + 1])


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _parse(text: str) -> Tree:
    return _parser().parse(text.encode())


def _commands(node: Node) -> Iterator[Node]:
    if node.type == "command":
        yield node
    for child in node.named_children:
        yield from _commands(child)


def _words(command: Node) -> tuple[str, ...]:
    named = [
        node
        for node in command.named_children
        if node.type not in {"variable_assignment", "comment"}
    ]
    return tuple(word for node in named if node.text for word in _unquoted(node.text.decode()))


def _unquoted(text: str) -> list[str]:
    """A word as the shell hands it on; what it would put in for a variable or a command stays as it is written."""
    if text.startswith("$("):
        return [text]
    return shlex.split(text)

# SPDX-License-Identifier: Apache-2.0
"""Pure. YAML as nodes with their places, and the lines of a value as lines of its file."""

import re
from collections.abc import Iterator

from msgspec import Struct


class ScalarNode(Struct, eq=False, kw_only=True):
    """A text as YAML reads it.

    line, end_line: 1-based; end_line is the last line of the value. start, end: offsets of the
    value in characters, quotes and block header included. style: `'`, `"`, `|`,
    `>`, or the empty text for a plain one. tag: one that the author wrote, such as `!env`.
    """

    value: str
    style: str
    tag: str | None
    line: int
    end_line: int
    start: int
    end: int


class SequenceNode(Struct, eq=False, kw_only=True):
    """A list."""

    items: list["Node"]
    tag: str | None
    line: int
    end_line: int = 0


class Field(Struct, eq=False, frozen=True):
    """A key of a mapping with its value. `merged`: it comes from another mapping, through `<<`."""

    key: ScalarNode
    value: "Node"
    merged: bool = False


class MappingNode(Struct, eq=False, kw_only=True):
    """A mapping.

    fields: by key; of a key that stands there twice, the last one, as most readers take it. Merged
    keys yield to own ones. repeated: each key that stands there again, with the first one.
    """

    fields: dict[str, Field]
    repeated: list[tuple[Field, Field]]
    tag: str | None
    line: int
    end_line: int = 0

    def get(self, *names: str) -> "Node | None":
        """The value of the first of these keys that is there."""
        for name in names:
            field = self.fields.get(name)
            if field is not None:
                return field.value
        return None


Node = ScalarNode | SequenceNode | MappingNode


def walk(node: Node) -> Iterator[Node]:
    """Each node below `node`, and itself, once, in the order of the file."""
    visited: set[int] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if id(each) in visited:
            continue
        visited.add(id(each))
        yield each
        if isinstance(each, SequenceNode):
            waiting.extend(reversed(each.items))
        elif isinstance(each, MappingNode):
            waiting.extend(field.value for field in reversed(each.fields.values()))


def scalars_of(node: Node | None) -> list[ScalarNode]:
    """The texts of a value that may be one text or a list of them."""
    if isinstance(node, ScalarNode):
        return [node]
    if isinstance(node, SequenceNode):
        return [each for each in node.items if isinstance(each, ScalarNode)]
    return []


def text_of(node: Node | None) -> str | None:
    """The text of a scalar; None for anything else."""
    return node.value if isinstance(node, ScalarNode) else None


def whole_number(node: Node | None) -> int | None:
    """The integer that a plain or quoted scalar spells; None if it is none."""
    text = text_of(node)
    if text is None or len(text) > 18:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() else None


def is_true(node: Node | None) -> bool:
    """Whether a value is the boolean `true`."""
    return text_of(node) in ("true", "True", "TRUE")


def mapping_of(node: Node | None) -> MappingNode | None:
    """The node if it is a mapping."""
    return node if isinstance(node, MappingNode) else None


def items_of(node: Node | None) -> list[Node]:
    """The items of a list; none for anything else."""
    return node.items if isinstance(node, SequenceNode) else []


# For each line of a scalar's value, the line of the file on which it begins.

_TOKEN = re.compile(r"\S+")
_HEADER = re.compile(r"[|>][^\n]*\n?")
# How far ahead a word is looked for: indentation and folds lie between two words, not pages.
_WINDOW = 2000


def scalar_lines(node: ScalarNode, text: str) -> tuple[int, ...]:
    """1-based lines of `text`, the whole file, one for each line of `node.value`."""
    lines = node.value.split("\n")
    if node.style == "|":
        return _literal(node, len(lines))
    if len(lines) == 1:
        # A folded block begins on the line after its header, and after empty ones.
        return (node.line,) if node.style != ">" else _followed(node, text, lines)
    return _followed(node, text, lines)


def _literal(node: ScalarNode, count: int) -> tuple[int, ...]:
    """The lines of a literal block stand in the file as they are, right after the header."""
    first = node.line + 1
    return tuple(range(first, first + count))


def _followed(node: ScalarNode, text: str, lines: list[str]) -> tuple[int, ...]:
    """Finds the words of the value one after the other in the source, as folding keeps their order."""
    raw = text[node.start : node.end]
    header = _HEADER.match(raw) if node.style == ">" else None
    at = header.end() if header else 0
    line_at = node.line + raw.count("\n", 0, at)
    counted = at
    numbers = []
    for line in lines:
        here = None
        for token in _TOKEN.finditer(line):
            position, length = _find(raw, token.group(), at, node.style)
            if position < 0:
                continue
            if here is None:
                line_at += raw.count("\n", counted, position)
                counted = position
                here = line_at
            at = position + length
        line_at += raw.count("\n", counted, at)
        counted = at
        numbers.append(here if here is not None else min(line_at + 1, node.end_line))
    return tuple(numbers)


def _find(raw: str, token: str, at: int, style: str) -> tuple[int, int]:
    """Where a word stands as the style writes it, and how long it is there; -1 if it does not."""
    written = token
    if style == "'":
        written = token.replace("'", "''")
    elif style == '"':
        written = token.replace("\\", "\\\\").replace('"', '\\"')
    for form in (written, token):
        position = raw.find(form, at, at + _WINDOW + len(form))
        if position >= 0:
            return position, len(form)
    return -1, 0

# SPDX-License-Identifier: Apache-2.0
"""Pure. A YAML document as nodes that keep their place; no value is converted.

An alias is the very node that its anchor names, so a document is a graph without circles. Whoever
walks all of it visits each node once.
"""

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

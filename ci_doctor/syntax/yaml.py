# SPDX-License-Identifier: Apache-2.0
"""Pure. YAML as nodes with their places, composed without building values."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import yaml


# YAML as nodes with their places, and the lines of a value as lines of its file.


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
    keys yield to own ones.
    """

    fields: dict[str, Field]
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

# How far ahead a word is looked for: indentation and folds lie between two words, not pages.
_WINDOW = 2000


def scalar_lines(node: ScalarNode, text: str) -> tuple[int, ...]:
    """1-based lines of `text`, the whole file, one for each line of `node.value`."""
    lines = node.value.split("\n")
    if node.style == "|":
        # They stand in the file as they are, right after the header.
        return tuple(range(node.line + 1, node.line + 1 + len(lines)))
    # Folding keeps the order of the words, which are looked for one after the other.
    raw = text[node.start : node.end]
    at = raw.find("\n") + 1 if node.style == ">" else 0
    line_at, counted = node.line, 0
    numbers = []
    for line in lines:
        here = None
        for token in line.split():
            position = raw.find(_written(token, node.style), at, at + _WINDOW + len(token))
            if position < 0:
                continue
            line_at += raw.count("\n", counted, position)
            counted = at = position
            here = here or line_at
            at += len(token)
        numbers.append(here or min(line_at + 1, node.end_line))
    return tuple(numbers)


def _written(token: str, style: str) -> str:
    """A word as the style writes it."""
    if style == "'":
        return token.replace("'", "''")
    return token.replace("\\", "\\\\").replace('"', '\\"') if style == '"' else token


# Reads the text of a YAML file as documents of nodes, from the events of libyaml.
#
# The loader's own `compose` recurses in C: a text of 10,000 brackets ends the process. It also
# refuses an anchor that is defined again, as YAML 1.2 allows.

_DEEPEST = 200
# What aliases may expand to, in keys that merges copy.
_MOST_MERGED = 500_000


class YamlProblem(Struct, frozen=True, kw_only=True):
    """Why the rest of a file cannot be read. `line` is 1-based; `reason` has no full stop.

    ours: a limit of this reader, not an error of the file.
    """

    line: int
    reason: str
    ours: bool = False


class Composition(Struct, frozen=True, kw_only=True):
    """The documents that are whole, and what ended the reading."""

    documents: tuple[Node, ...]
    problem: YamlProblem | None = None


class _Stop(Exception):  # noqa: N818 - it ends the reading, and is no error of the program
    def __init__(self, problem: YamlProblem) -> None:
        super().__init__(problem.reason)
        self.problem = problem


# Line breaks to YAML 1.1, and to nobody who counts lines.
_ODD_BREAKS = str.maketrans("\x85\u2028\u2029", "   ")
_LONE_RETURN = re.compile(r"\r(?!\n)")


def with_plain_breaks(text: str) -> str:
    """The text in which only a line feed ends a line; each offset stays what it is."""
    text = text.translate(_ODD_BREAKS) if not text.isascii() else text
    if "\r" in text:
        text = _LONE_RETURN.sub(" " if "\n" in text else "\n", text)
    return text


def compose(text: str) -> Composition:
    """The documents of `text`, which has plain line breaks. Raises nothing, whatever the text."""
    import yaml

    composer = _Composer()
    loader = yaml.CBaseLoader if hasattr(yaml, "CBaseLoader") else yaml.BaseLoader
    problem = None
    try:
        for event in yaml.parse(text, Loader=loader):
            composer.take(event)
    except _Stop as stop:
        problem = stop.problem
    except yaml.MarkedYAMLError as error:
        problem = _problem_of(error, text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, max(error.position, 0)) + 1
        problem = YamlProblem(line=line, reason="a character that YAML does not allow")
    except yaml.YAMLError as error:
        problem = YamlProblem(line=1, reason=" ".join(str(error).split()) or "no YAML")
    except (ValueError, UnicodeError) as error:
        problem = YamlProblem(line=1, reason=f"no YAML: {type(error).__name__}")
    return Composition(documents=tuple(composer.documents), problem=problem)


def _problem_of(error: "yaml.MarkedYAMLError", text: str) -> YamlProblem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    reason = error.problem or error.context or "no YAML"
    # libyaml may have a lower limit of its own, which it meets before the first event.
    if "maximum nesting depth" in reason:
        return YamlProblem(line=line, reason=f"nested deeper than {_DEEPEST} levels", ours=True)
    lines = text.split("\n", line)
    at = lines[line - 1] if line <= len(lines) else ""
    indent = at[: len(at) - len(at.lstrip())]
    if "\t" in indent or ("start any token" in reason and "\t" in at):
        reason = "a tab where YAML allows only spaces"
    return YamlProblem(line=line, reason=reason)


class _Open(Struct, eq=False):
    """A collection whose end has not come yet, with the key that waits for its value."""

    node: MappingNode | SequenceNode
    anchor: str | None
    key: ScalarNode | None = None
    # A key that is no scalar: its value is read, and has no name.
    nameless: bool = False
    merges: list[Node] = []


class _Composer:
    """Takes events one by one; no recursion, whatever the depth.

    Events are Any: their stubs allow marks of None, which libyaml never gives.
    """

    def __init__(self) -> None:
        self.documents: list[Node] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}
        self._merged = 0

    def take(self, event: Any) -> None:
        """Adds what one event says."""
        kind = type(event).__name__
        if kind == "ScalarEvent":
            start, end = event.start_mark, event.end_mark
            style = event.style or ""
            # libyaml ends a block scalar at the beginning of the line after it.
            last = end.line if style in ("|", ">") and end.column == 0 else end.line + 1
            scalar = ScalarNode(
                value=event.value,
                style=style,
                tag=event.tag if event.tag != "!" else None,
                line=start.line + 1,
                end_line=max(start.line + 1, last),
                start=start.index,
                end=end.index,
            )
            if event.anchor is not None:
                self._anchors[event.anchor] = scalar
            self._place(scalar)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._begin(event, kind)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._finish(event)
        elif kind == "AliasEvent":
            self._place(self._aliased(event))
        elif kind == "DocumentStartEvent":
            self._anchors.clear()

    def _begin(self, event: Any, kind: str) -> None:
        line = event.start_mark.line + 1
        if len(self._open) >= _DEEPEST:
            reason = f"nested deeper than {_DEEPEST} levels"
            raise _Stop(YamlProblem(line=line, reason=reason, ours=True))
        tag = event.tag if event.tag != "!" else None
        node: MappingNode | SequenceNode
        if kind == "MappingStartEvent":
            node = MappingNode(fields={}, tag=tag, line=line)
        else:
            node = SequenceNode(items=[], tag=tag, line=line)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(node, event.anchor, merges=[]))

    def _finish(self, event: Any) -> None:
        opened = self._open.pop()
        node = opened.node
        mark = event.end_mark
        node.end_line = max(node.line, mark.line if mark.column == 0 else mark.line + 1)
        if isinstance(node, MappingNode):
            for other in opened.merges:
                self._merge(node, other)
        if opened.anchor is not None:
            self._anchors[opened.anchor] = node
        self._place(node)

    def _aliased(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            where = "inside itself" if event.anchor in self._anchors else "that nothing defines"
            reason = f"an alias *{event.anchor} {where}"
            raise _Stop(YamlProblem(line=event.start_mark.line + 1, reason=reason))
        return node

    def _place(self, node: Node) -> None:
        if not self._open:
            self.documents.append(node)
            return
        opened = self._open[-1]
        holder = opened.node
        if isinstance(holder, SequenceNode):
            holder.items.append(node)
        elif opened.nameless:
            opened.nameless = False
        elif opened.key is None:
            opened.nameless = not isinstance(node, ScalarNode)
            opened.key = node if isinstance(node, ScalarNode) else None
        else:
            _add(holder, Field(opened.key, node), opened.merges)
            opened.key = None

    def _merge(self, node: MappingNode, other: Node) -> None:
        for each in other.items if isinstance(other, SequenceNode) else (other,):
            if not isinstance(each, MappingNode):
                continue
            self._merged += len(each.fields)
            if self._merged > _MOST_MERGED:
                reason = f"merges that expand to more than {_MOST_MERGED} keys"
                raise _Stop(YamlProblem(line=node.line, reason=reason, ours=True))
            for name, field in each.fields.items():
                node.fields.setdefault(name, Field(field.key, field.value, merged=True))


def _add(mapping: MappingNode, field: Field, merges: list[Node]) -> None:
    name = field.key.value
    if name == "<<" and not field.key.style:
        merges.append(field.value)
        return
    mapping.fields[name] = field

# SPDX-License-Identifier: Apache-2.0
"""Pure. For each line of a scalar's value, the line of the file on which it begins."""

import re

from ci_doctor.lint.pipelines.reading.yaml_nodes import ScalarNode

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

# SPDX-License-Identifier: Apache-2.0
"""Pure. Where a key stands in a TOML text, which the standard library's parser does not keep."""

import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

Key = str | int  # of a table, or the index in an array
Keys = tuple[Key, ...]
Lines = dict[Keys, int]
# What a statement of several lines can end with.
_CLOSING = ("]", "}", '"""', "'''")


def line_of(text: str, keys: Keys) -> int | None:
    """Return the 1-based line of the statement in valid TOML `text` that sets `keys`.

    If the text does not set them, it is the line of the longest leading part of them; None if
    not even the first key is there.
    """
    lines = _lines(text)
    for end in range(len(keys), 0, -1):
        leading = keys[:end]
        line = lines.get(leading)
        if line is not None:
            return line
    return None


# Every value of a file asks for its line, and all of them with the same text.
@lru_cache(maxsize=4)
def _lines(text: str) -> Lines:
    """The line of every key. A statement is the shortest run of lines that parses on its own."""
    lines: Lines = {}
    arrays: dict[Keys, int] = {}
    table: Keys = ()
    start = 1
    statement = ""
    for number, line in enumerate(text.split("\n"), start=1):
        statement += f"{line}\n"
        document = _parsed(statement, line)
        if document is None:
            continue
        # An empty line and a comment parse too, to a document that sets nothing.
        is_header = statement.lstrip().startswith("[")
        if document and is_header:
            table = _opened(document, arrays)
            _add(lines, table, start)
        else:
            for below in _paths(document):
                keys = (*table, *below)
                _add(lines, keys, start)
        start = number + 1
        statement = ""
    return lines


def _add(lines: Lines, keys: Keys, line: int) -> None:
    """Note the line of `keys` and of every table above them that has none yet."""
    for end in range(1, len(keys) + 1):
        # TOML sets a key once, but may come back to the table that holds it: the first line stays.
        leading = keys[:end]
        lines.setdefault(leading, line)


def _parsed(statement: str, last_line: str) -> dict[str, Any] | None:
    """The document that `statement` is; None if it goes on."""
    is_one_line = statement == f"{last_line}\n"
    # To parse a long array again at each of its lines would take quadratic time.
    may_end = any(closing in last_line for closing in _CLOSING)
    if not is_one_line and not may_end:
        return None
    try:
        return tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return None


def _opened(header: Any, arrays: dict[Keys, int]) -> Keys:
    """The table that a parsed header opens; `arrays` counts the tables of each array so far."""
    path: Keys = ()
    while header:
        # A header alone parses to one key a level: {"a": {"b": {}}}.
        ((key, header),) = header.items()
        path = (*path, key)
        if isinstance(header, list):
            count = arrays.get(path, 0)
            arrays[path] = count + 1
            header = header[0]
        # `[services.env]` after `[[services]]` belongs to the last table of the array.
        if path in arrays:
            last = arrays[path] - 1
            path = (*path, last)
    return path


def _paths(value: Any) -> Iterator[Keys]:
    """Every key below `value`, the outer ones first."""
    items: Iterable[tuple[Key, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, below in items:
        yield (key,)
        for more in _paths(below):
            yield (key, *more)

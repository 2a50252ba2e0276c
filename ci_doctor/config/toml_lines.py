# SPDX-License-Identifier: Apache-2.0
"""Where a key stands in a TOML text. Pure; the standard library's parser forgets it."""

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Keys = tuple[str | int, ...]  # a table's key, or the index in an array


def line_of(text: str, keys: Keys) -> int | None:
    """The 1-based line of the statement in valid TOML `text` that sets `keys`, or the longest leading part of them."""
    lines = _lines(text)
    return next((lines[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in lines), None)


@lru_cache(maxsize=4)
def _lines(text: str) -> dict[Keys, int]:
    """Statement by statement: each is the shortest run of lines that the parser takes for a document of its own."""
    lines: dict[Keys, int] = {}
    arrays: dict[Keys, int] = {}
    table: Keys = ()
    start, statement = 1, ""
    for number, line in enumerate(text.split("\n"), start=1):
        statement += f"{line}\n"
        found = _parsed(statement, line)
        if found is None:
            continue
        if found and statement.lstrip().startswith("["):
            table = _opened(found, arrays)
            keys = iter([table])
        else:
            keys = ((*table, *below) for below in _paths(found))
        for each in keys:
            for end in range(1, len(each) + 1):
                lines.setdefault(each[:end], start)
        start, statement = number + 1, ""
    return lines


def _parsed(statement: str, last_line: str) -> dict[str, Any] | None:
    # A statement of several lines ends with one of these; to try it at every line would take quadratic time.
    if statement != f"{last_line}\n" and not any(
        end in last_line for end in ("]", "}", '"""', "'''")
    ):
        return None
    try:
        return tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return None


def _opened(found: Any, arrays: dict[Keys, int]) -> Keys:
    """The table that a header opens; `arrays` counts the tables of each array so far."""
    path: Keys = ()
    while found:
        ((key, found),) = found.items()
        path = (*path, key)
        if isinstance(found, list):
            arrays[path] = arrays.get(path, 0) + 1
            found = found[0]
        if path in arrays:
            path = (*path, arrays[path] - 1)
    return path


def _paths(value: Any) -> Iterator[Keys]:
    """Every key below `value`."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, below in items:
        yield (key,)
        yield from ((key, *more) for more in _paths(below))

# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration file: `ci-doctor.toml`, or `[tool.ci-doctor]` in pyproject.toml.

`decoding` turns one section of it into the settings of a room.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from ci_doctor.errors import ConfigError
from ci_doctor.model.words import did_you_mean

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


_PROJECT_PREFIX = ("tool", "ci-doctor")
SECTIONS = (
    "cache",
    "correctness",
    "diagnose",
    "doctor",
    "exit-codes",
    "history",
    "lint",
    "pytest",
    "restart-check",
    "services",
    "setup-env",
)
# `[tool.ci-doctor]`, `[tool.ci-doctor.setup-env]`, and their spellings.
_OUR_TABLE = re.compile(
    rb"""^[ \t]*\[+[ \t]*tool[ \t]*\.[ \t]*["']?ci-doctor["']?[ \t]*[.\]]""", re.MULTILINE
)


Tables = dict[str, Any]  # as the parser gives them
Names = tuple[str, ...]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded file: its tables, its text (for line numbers), and the keys above our tables."""

    path: Path | None
    tables: Tables
    text: str = ""
    prefix: Names = ()

    @property
    def directory(self) -> Path:
        """The directory that relative paths in the file start from."""
        if self.path is None:
            return Path.cwd()
        return self.path.parent

    def where(self, *keys: str | int) -> str:
        """Return `file:line` of a key, or the file alone if the key is not written in it."""
        if self.path is None:
            return "configuration"
        name = os.path.relpath(self.path)
        whole = (*self.prefix, *keys)
        line = line_of(self.text, whole)
        if line is None:
            return name
        return f"{name}:{line}"


def load_config(explicit: Path | None, cwd: Path) -> Config:
    """Load the file `explicit`, or else the one that `find_config` finds; without any, it is empty.

    Raises ConfigError for a missing or unparsable file and for an unknown section.
    """
    path = explicit or find_config(cwd)
    if path is None:
        return Config(path=None, tables={})
    try:
        if path.is_fifo():
            # Of `<(…)`, say; most runs need no more than a file, and this takes a while to import.
            from ci_doctor.system.files.access import open_file_or_pipe

            with open_file_or_pipe(path) as file:
                text = file.read().decode()
        else:
            text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The parser has no attribute for the line before Python 3.14; its message names it.
        line = re.search(r"at line (\d+)", str(error))
        where = str(path)
        # Without a number if the file ends too early: "at end of document".
        if line is not None:
            where = f"{path}:{line[1]}"
        raise ConfigError(f"{where}: not valid TOML: {error}", hint="mend that line") from error
    except (OSError, UnicodeDecodeError) as error:
        from ci_doctor.system.files.access import near_path

        why = (error.strerror if isinstance(error, OSError) else None) or error
        near = near_path(path) if isinstance(error, FileNotFoundError) else None
        hint = near or "name an existing TOML file with --config"
        raise ConfigError(f"{path}: cannot be read: {why}", hint=hint) from error
    return _our_tables(path.absolute(), document, text)


def find_config(cwd: Path) -> Path | None:
    """Find `ci-doctor.toml`, or a pyproject.toml with our table, in `cwd` or above it.

    The search ends at the repository's root: a file above it belongs to something else.
    """
    for directory in (cwd, *cwd.parents):
        own = directory / "ci-doctor.toml"
        # Also one that is no file, which then cannot be read.
        if own.exists():
            return own
        # By a pattern, because a pyproject.toml of somebody else may not even be valid TOML.
        project = directory / "pyproject.toml"
        if project.is_file() and _OUR_TABLE.search(project.read_bytes()):
            return project
        if (directory / ".git").exists():
            return None
    return None


def _our_tables(path: Path, document: Tables, text: str) -> Config:
    """The sections of a parsed file. Raises ConfigError for one that no room reads."""
    prefix: Names = ()
    if path.name == "pyproject.toml":
        prefix = _PROJECT_PREFIX
    # Made first with the whole document: an error about it names a line, too.
    config = Config(path=path, tables=document, text=text, prefix=prefix)
    tables = document
    for depth, key in enumerate(prefix, start=1):
        leading = prefix[:depth]
        tables = _table(tables, key, config, leading)
    for name in tables:
        # Every section, whatever the command: a mistyped one would be ignored in silence.
        if name not in SECTIONS:
            where = config.where(name)
            hint = did_you_mean(name, SECTIONS)
            raise ConfigError(f"{where}: unknown section `{name}`", hint=hint)
        keys = (*prefix, name)
        _table(tables, name, config, keys)
    return msgspec.structs.replace(config, tables=tables)


def _table(tables: Tables, name: str, config: Config, keys: Names) -> Tables:
    """`tables[name]`, at `keys` of the whole file. Raises ConfigError if it is no table."""
    table: Any = tables.get(name, {})
    if not isinstance(table, dict):
        # `where` puts the prefix before the keys itself.
        own_keys = keys[len(config.prefix) :]
        where = config.where(*own_keys)
        header = ".".join(keys)
        raise ConfigError(f"{where}: `{name}` must be a table", hint=f"write [{header}]")
    return table

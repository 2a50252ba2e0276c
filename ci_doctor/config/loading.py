# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration file: `ci-doctor.toml`, or `[tool.ci-doctor]` in pyproject.toml.

`decoding` turns one section of it into the settings of a room.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from ci_doctor.config.toml_lines import line_of
from ci_doctor.errors import ConfigError
from ci_doctor.model.suggestion import did_you_mean

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
        raise ConfigError(
            f"{path}: cannot be read: {error}", hint="name an existing TOML file with --config"
        ) from error
    return _our_tables(path.absolute(), document, text)


def find_config(cwd: Path) -> Path | None:
    """Find `ci-doctor.toml`, or a pyproject.toml with our table, in `cwd` or above it.

    The search ends at the repository's root: a file above it belongs to something else.
    """
    for directory in (cwd, *cwd.parents):
        own = directory / "ci-doctor.toml"
        if own.is_file():
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

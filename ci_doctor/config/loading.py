# SPDX-License-Identifier: Apache-2.0
"""Loads and merges configuration: defaults < file < environment < flags, with where each value came from.

The file is `ci-doctor.toml`, or the same tables under `[tool.ci-doctor]` in pyproject.toml.
Each room decodes its own section with `decode`.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ci_doctor.config.toml_lines import Keys, line_of
from ci_doctor.errors import ConfigError, UsageError
from ci_doctor.model.duration import parse_duration
from ci_doctor.model.suggestion import did_you_mean

SECTIONS = ("correctness", "exit-codes", "restart-check", "services", "setup-env")
DEFAULT = "default"
_WRITE_A_DURATION = 'write it as "90s", "25m" or "1h30m"'
S = TypeVar("S", bound=msgspec.Struct)
# `[tool.ci-doctor]`, `[tool.ci-doctor.setup-env]`, and their spellings.
_OUR_TABLE = re.compile(
    rb"""^[ \t]*\[+[ \t]*tool[ \t]*\.[ \t]*["']?ci-doctor["']?[ \t]*[.\]]""", re.MULTILINE
)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded file: its tables, its text (for line numbers), and the keys that lead to our tables in it."""

    path: Path | None
    tables: dict[str, Any]
    text: str = ""
    prefix: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """What relative paths in the file are relative to."""
        return self.path.parent if self.path else Path.cwd()

    def where(self, *keys: str | int) -> str:
        """`file:line` of a key, or as near as can be told."""
        if self.path is None:
            return "configuration"
        line = line_of(self.text, (*self.prefix, *keys))
        shown = os.path.relpath(self.path)
        return f"{shown}:{line}" if line else shown


def load(explicit: Path | None, cwd: Path) -> Config:
    """The configuration file to use, or an empty one. Raises ConfigError for a missing or unparsable file."""
    path = explicit or find(cwd)
    if path is None:
        return Config(path=None, tables={})
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{path}:{line[1]}" if line else str(path)
        raise ConfigError(f"{where}: not valid TOML: {error}", hint="mend that line") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {error}", hint="name an existing TOML file with --config"
        ) from error
    return _with_known_sections(path.absolute(), document, text)


def find(cwd: Path) -> Path | None:
    """`ci-doctor.toml` or a pyproject.toml with our table, in `cwd` or above it, up to the repository's root."""
    for directory in (cwd, *cwd.parents):
        own = directory / "ci-doctor.toml"
        if own.is_file():
            return own
        project = directory / "pyproject.toml"
        if project.is_file() and _OUR_TABLE.search(project.read_bytes()):
            return project
        if (directory / ".git").exists():
            return None
    return None


def _with_known_sections(path: Path, document: dict[str, Any], text: str) -> Config:
    prefix = ("tool", "ci-doctor") if path.name == "pyproject.toml" else ()
    config = Config(path=path, tables=document, text=text, prefix=prefix)
    for depth, key in enumerate(prefix):
        config = msgspec.structs.replace(
            config, tables=_table(config.tables, key, config, prefix[: depth + 1])
        )
    for name in config.tables:
        if name not in SECTIONS:
            raise ConfigError(
                f"{config.where(name)}: unknown section `{name}`", hint=did_you_mean(name, SECTIONS)
            )
        _table(config.tables, name, config, (*prefix, name))
    return config


def _table(
    tables: Mapping[str, Any], name: str, config: Config, keys: tuple[str, ...]
) -> dict[str, Any]:
    table: Any = tables.get(name, {})
    if not isinstance(table, dict):
        where = config.where(*keys[len(config.prefix) :])
        raise ConfigError(f"{where}: `{name}` must be a table", hint=f"write [{'.'.join(keys)}]")
    return table


def decode(
    config: Config,
    section: str,
    into: type[S],
    *,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
) -> tuple[S, dict[str, str]]:
    """One section as `into`, and where each of its values came from.

    `flags` holds only what the command line gave; an absent flag is absent, None or empty.
    Raises ConfigError for an unknown key or a wrong type, with file and line where the value came from the file.
    """
    fields = {field.name: field for field in msgspec.structs.fields(into)}
    values: dict[str, Any] = dict(config.tables.get(section, {}))
    origins = {name: config.where(section, name) for name in values}
    for name, field in fields.items():
        text = environ.get(variable(section, name), "")
        if text:
            values[name] = _from_environment(variable(section, name), text, field.type)
            origins[name] = f"environment {variable(section, name)}"
    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    values |= given
    origins |= {name: f"flag --{name.replace('_', '-')}" for name in given}

    def where(keys: Keys) -> str:
        origin = origins.get(str(keys[0]), "") if keys else ""
        return config.where(section, *keys) if _is_file(origin) else origin

    return convert(values, into, where), {name: origins.get(name, DEFAULT) for name in fields}


def _is_file(origin: str) -> bool:
    return origin != DEFAULT and not origin.startswith(("flag --", "environment CI_DOCTOR_"))


def variable(section: str, name: str) -> str:
    """The environment variable of a key: `CI_DOCTOR_CORRECTNESS_RETRIES`."""
    return f"CI_DOCTOR_{section}_{name}".replace("-", "_").upper()


def _from_environment(name: str, text: str, kind: Any) -> Any:
    """The value of a variable: JSON for lists and tables; `1` and `true`, a number, a word stand for themselves."""
    try:
        if text.startswith(("[", "{")):
            return msgspec.json.decode(text)
        return msgspec.to_builtins(msgspec.convert(text, kind, strict=False))
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        message = str(error)
        hint = (
            'write a JSON array, such as ["a", "b"]'
            if "`array`" in message
            else f"correct or unset {name}"
        )
        raise ConfigError(
            f"environment {name}: {message[:1].lower()}{message[1:]}", hint=hint
        ) from error


def convert(values: Any, into: type[S], where: Callable[..., str]) -> S:
    """`values` as a struct. `where` maps a path of keys to a place to name in the error."""
    try:
        return msgspec.convert(values, into)
    except msgspec.ValidationError as error:
        raise _readable(error, into, where) from error


def _readable(
    error: msgspec.ValidationError, into: type[msgspec.Struct], where: Callable[..., str]
) -> ConfigError:
    """A ConfigError with the place, the sentence and the nearest key for msgspec's message."""
    message, _, path = str(error).partition(" - at `$")
    keys: Keys = tuple(
        name or int(index) for name, index in re.findall(r"\.([\w-]+)|\[(\d+)\]", path)
    )
    unknown = re.search(r"unknown field `([^`]+)`", message)
    if unknown:
        known = _fields_at(into, keys)
        keys = (*keys, unknown[1])
        return ConfigError(
            f"{where(keys)}: unknown key `{unknown[1]}`", hint=did_you_mean(unknown[1], known)
        )
    shown = ".".join(map(str, keys)) or "this table"
    if "[...]" in path:
        shown += " (one of its values)"
    return ConfigError(
        f"{where(keys)}: {shown}: {message[:1].lower()}{message[1:]}",
        hint="`ci-doctor config show` shows every key with a value of its type",
    )


def _fields_at(into: Any, keys: Keys) -> tuple[str, ...]:
    """The field names of the struct that `keys` lead to."""
    for key in (key for key in keys if isinstance(key, str)):
        types = {field.name: field.type for field in msgspec.structs.fields(into)}
        options = [types.get(key), *getattr(types.get(key), "__args__", ())]
        into = next(
            (
                kind
                for kind in options
                if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
            ),
            into,
        )
    return tuple(field.encode_name for field in msgspec.structs.fields(into))


def path_in(config: Config, origin: str, text: str) -> Path:
    """A path of a setting: relative to the file that named it, else to the working directory."""
    return config.directory / text if _is_file(origin) else Path(text)


def seconds(value: str | float, name: str) -> float:
    """The duration of a setting. Raises UsageError, naming it."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", hint=_WRITE_A_DURATION) from error


def seconds_above_zero(value: str | float, name: str) -> float:
    """The same, where 0 makes no sense."""
    length = seconds(value, name)
    if length <= 0:
        raise UsageError(f"{name} must be more than 0", hint=_WRITE_A_DURATION)
    return length

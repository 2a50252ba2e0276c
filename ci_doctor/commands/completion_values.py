# SPDX-License-Identifier: Apache-2.0
"""Reads PATH and the configuration: the values that shell completion offers for options.

Every function takes click's context, the parameter and the text so far. Rooms are imported late:
commands name these functions, and must not load what only completion needs.
"""

import os
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Items = list["CompletionItem[Any]"]


def directories(
    _context: click.Context | None, _parameter: click.Parameter | None, incomplete: str
) -> Items:
    """Directories, which the shell knows best."""
    return [_item(incomplete, "dir")]


def files(
    _context: click.Context | None, _parameter: click.Parameter | None, incomplete: str
) -> Items:
    """Files and directories, which the shell knows best."""
    return [_item(incomplete, "file")]


def logs_or_rules(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Files; as the first word also the command that lists the rules."""
    first = [] if context.params.get("logs") else ["rules"]
    offered = [] if not incomplete else _starting(incomplete, first)
    return [*offered, *files(context, parameter, incomplete)]


def interpreters(
    context: click.Context | None, parameter: click.Parameter | None, incomplete: str
) -> Items:
    """The Pythons on PATH; files, once a slash is typed."""
    names = [name for name in _executables(incomplete) if name.startswith("python")]
    return [_item(name) for name in names] or files(context, parameter, incomplete)


def presets(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Names of preload presets."""
    from ci_doctor.preload.preload_rule import PRESETS

    return _starting(incomplete, PRESETS)


def services(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Names of the configured services."""
    return _starting(incomplete, _services(context))


def checks(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Areas and ids of the checks of `ci-doctor doctor`, the repository's own too."""
    from ci_doctor.checks.all_checks import ON_REQUEST, all_checks
    from ci_doctor.checks.settings import DoctorSettings
    from ci_doctor.config.decoding import decode_section
    from ci_doctor.config.loading import load_config

    loaded = load_config(context.params.get("config_path"), Path.cwd())
    settings, _ = decode_section(loaded, "doctor", DoctorSettings, environ=os.environ, flags={})
    known = all_checks(settings, list(ON_REQUEST))
    areas = dict.fromkeys(check.area for check in known)
    return _starting(incomplete, [*areas, *(check.id for check in known)])


def services_with_value(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> Items:
    """The same in front of a `=`; behind it, the other services."""
    name, equals, begun = incomplete.partition("=")
    names = _services(context)
    if not equals:
        return _starting(incomplete, [f"{each}=" for each in names])
    others = [each for each in names if each != name and each.startswith(begun)]
    return [_item(f"{name}={each}") for each in others]


def signals(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Names of signals."""
    return _starting(incomplete, [each.name for each in signal.Signals])


def explained_words(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """What `ci-doctor explain` explains."""
    from ci_doctor.explanation import explained_words as words

    return _starting(incomplete, words())


def separator(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The `--` in front of a command that a person gives."""
    words = ["--"]
    # The one word that may stand there without it.
    if context.info_name == "import-race":
        words.append("probe")
    return _starting(incomplete, words)


def words_of_command(earlier: Sequence[str], incomplete: str) -> Items:
    """Behind `--`: executables on PATH for the first word, and files for the others."""
    names = [] if earlier else _executables(incomplete)
    return [_item(name) for name in names] or files(None, None, incomplete)


def _executables(incomplete: str) -> list[str]:
    """Names on PATH that begin with `incomplete`; none for a path, or before a letter is typed."""
    if not incomplete or "/" in incomplete:
        return []
    commands: set[str] = set()
    for folder in os.get_exec_path():
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - thousands of names, at each key
        except OSError:
            continue
        begun = [name for name in names if name.startswith(incomplete)]
        commands.update(name for name in begun if os.access(Path(folder, name), os.X_OK))
    return sorted(commands)


def _services(context: click.Context) -> list[str]:
    from ci_doctor.config.loading import load_config

    named: Path | None = context.params.get("config_path")
    tables: dict[str, Any] = load_config(named, Path.cwd()).tables
    return list(tables.get("services", {}))


def _starting(incomplete: str, words: Iterable[str]) -> Items:
    return [_item(word) for word in words if word.startswith(incomplete)]


def _item(value: str, kind: str = "plain") -> "CompletionItem[Any]":
    from click.shell_completion import CompletionItem

    return CompletionItem(value, type=kind)

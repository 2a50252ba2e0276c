# SPDX-License-Identifier: Apache-2.0
"""Reads PATH: whether the commands of a service can be run."""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import nearest
from ci_doctor.services.spec import FilledSpec, ServiceSpec

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_SHELL_WORDS = frozenset({"|", "||", "&&", "&", ";", "<", ">", ">>", "2>", "2>&1", "&>"})
_SHELL_HINT = 'no shell runs it; write command = ["bash", "-c", "..."] if it needs one'


def check_command(name: str, spec: ServiceSpec, filled: FilledSpec) -> None:
    """Raises UsageError if `command`, `stop_command` or the probe's command cannot be run."""
    _check_words(name, spec, filled)
    for label, words in (
        ("", filled.words),
        ("stop_command: ", filled.stop_words),
        ("ready: ", filled.probe.words),
    ):
        if not words:  # no stop_command, or another kind of probe
            continue
        problem = _command_problem(words[0], filled)
        if problem is not None:
            message, hint = problem
            raise UsageError(f'service "{name}": {label}{message}', hint=hint)


def _check_words(name: str, spec: ServiceSpec, filled: FilledSpec) -> None:
    if not filled.words or not filled.words[0]:
        raise UsageError(f'service "{name}": its command is empty', hint="name what to run")
    if "\0" in "".join(filled.words):
        raise UsageError(f'service "{name}": its command holds a NUL character', hint="remove it")
    if not isinstance(spec.command, str):  # a list of words may hold a `|` on purpose
        return
    operators = _SHELL_WORDS.intersection(filled.words)
    if operators:
        raise UsageError(
            f'service "{name}": its command holds {" ".join(sorted(operators))}', hint=_SHELL_HINT
        )


def _command_problem(command: str, filled: FilledSpec) -> tuple[str, str] | None:
    """Why `command` cannot be run and what to do; None if it can."""
    assignment = _ASSIGNMENT.match(command)
    if assignment is not None:
        return f"{command} is no command", f"set the variable as env = {{ {assignment[1]} = ... }}"
    if "/" in command:
        return _path_problem(filled.cwd / command)
    # As execvp(3) does it: a file that may not be run is passed over, and reported only at the end.
    folders = os.get_exec_path(filled.env)
    not_executable = None
    for folder in folders:
        path = filled.cwd / folder / command
        if is_executable(path):
            return None
        if not_executable is None and _is_file(path):
            not_executable = path
    if not_executable is not None:
        return _not_executable(not_executable)
    return f"command not found: {command}", _nearest_command(command, folders)


def _path_problem(path: Path) -> tuple[str, str] | None:
    if is_executable(path):
        return None
    if _is_file(path):
        return _not_executable(path)
    state = f"there is no {path}"
    if path.is_dir():
        state = f"{path} is a directory"
    return state, "check the path; a relative one begins at cwd"


def _not_executable(path: Path) -> tuple[str, str]:
    hint = f"chmod +x {path}, or name the interpreter that runs it"
    return f"{path} is not executable", hint


def is_executable(path: Path) -> bool:
    """Whether `path` is a file that may be run; False if a folder on the way may not be entered."""
    return _is_file(path) and os.access(path, os.X_OK)


def _is_file(path: Path) -> bool:
    # Path.is_file() raises if a folder on the way may not be entered; PATH may hold such folders.
    return os.path.isfile(path)  # noqa: PTH113


def _nearest_command(command: str, folders: Iterable[str]) -> str:
    names: set[str] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            names.update(os.listdir(folder))  # noqa: PTH208 - only names are needed
    advice = f"install it, or give its whole path; PATH is {os.pathsep.join(folders)}"
    near = nearest(command, names)
    if near is not None:
        return f"did you mean `{near}`? {advice}"
    return advice

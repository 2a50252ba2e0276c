# SPDX-License-Identifier: Apache-2.0
"""What can be found wrong with services before anything is started. Reads PATH and directories, changes nothing."""

import contextlib
import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.model.duration import parse_duration
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.services.spec import FilledSpec, LaunchContext, ServiceSpec, fill_spec
from ci_doctor.system.gpu_memory import check_gpu_library

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_SHELL_WORDS = frozenset({"|", "||", "&&", "&", ";", "<", ">", ">>", "2>", "2>&1", "&>"})
_ANY_PORT = 1
_SHELL_HINT = 'no shell runs it; write command = ["bash", "-c", "..."] where one is needed'


def check_services(
    specs: Mapping[str, ServiceSpec], names: Sequence[str], context: LaunchContext
) -> tuple[str, ...]:
    """The names to start in order: `names`, each after what it needs.

    Raises UsageError with a hint, naming the service: unknown name, cycle, command not found or not executable,
    missing cwd, a probe that cannot work, a bad duration.
    """
    order = start_order(specs, names)
    filled = {name: _check_service(name, specs[name], context, order) for name in order}
    if any("gpu-memory" in specs[name].released for name in order):
        check_gpu_library()
    _check_fixed_ports(
        (name, filled[name].probe.port) for name in order if specs[name].has_fixed_port()
    )
    return order


def start_order(specs: Mapping[str, ServiceSpec], names: Sequence[str]) -> tuple[str, ...]:
    """`names` with everything they need, each once, and after what it needs. Raises UsageError as `check_services`."""
    if not names:
        hint = (
            f"name one of: {', '.join(specs)}"
            if specs
            else "describe one in ci-doctor.toml, as [services.NAME]"
        )
        raise UsageError("no service is named", hint=hint)
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " -> ".join((*path[path.index(name) :], name))
            raise UsageError(
                f"services need each other in a circle: {circle}", hint="remove one of these needs"
            )
        if name not in specs:
            asked_by = (
                f'service "{path[-1]}" needs "{name}", which' if path else f'service "{name}"'
            )
            raise UsageError(f"{asked_by} is not defined", hint=did_you_mean(name, specs))
        for needed in specs[name].needs:
            visit(needed, (*path, name))
        if name not in order:
            order.append(name)

    for name in names:
        visit(name, ())
    return tuple(order)


def _check_service(
    name: str, spec: ServiceSpec, context: LaunchContext, order: Iterable[str]
) -> FilledSpec:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'"{name}" cannot name a service',
            hint="use letters, digits, dots, underscores and hyphens",
        )
    _check_values(name, spec)
    try:
        filled = fill_spec(spec, context, dict.fromkeys(order, _ANY_PORT), name)
    except ValueError as error:
        hint = 'use for example "/health", "http://127.0.0.1:{port}/health" or "tcp://127.0.0.1:{port}"'
        raise UsageError(f'service "{name}": {error}', hint=hint) from error
    _check_port(name, spec)
    _check_variables(name, filled)
    _check_authorization(name, filled)
    if not os.path.isdir(filled.cwd):  # noqa: PTH112 - as in _is_file
        raise UsageError(
            f'service "{name}": its cwd {filled.cwd} is not a directory',
            hint="make it, or change cwd",
        )
    _check_command(name, spec, filled)
    return filled


def _check_values(name: str, spec: ServiceSpec) -> None:
    for read, hint in (
        (spec.words, "close the quotation, or write the command as a list of words"),
        (spec.stop_words, "close the quotation, or write stop_command as a list of words"),
        (spec.start_timeout_s, 'write for example start_timeout = "400s"'),
        (lambda: parse_duration(spec.fatal_grace), 'write for example fatal_grace = "500ms"'),
        (lambda: parse_duration(spec.release_timeout), 'write for example release_timeout = "60s"'),
        (spec.log_limit_bytes, 'write for example log_limit = "64MiB"'),
        (lambda: _compile(spec.fatal), "mend `fatal`, or take it out"),
    ):
        try:
            read()
        except ValueError as error:
            raise UsageError(f'service "{name}": {error}', hint=hint) from error


def _compile(pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ValueError(f"fatal = {pattern!r} is no regular expression: {error}") from error


def _check_fixed_ports(fixed: Iterable[tuple[str, int]]) -> None:
    owners: dict[int, str] = {}
    for name, port in fixed:
        if port in owners:
            raise UsageError(
                f'services "{owners[port]}" and "{name}" are both asked on port {port}',
                hint="use {port} in one of them",
            )
        owners[port] = name


def _check_port(name: str, spec: ServiceSpec) -> None:
    if spec.asked_at() is not None and not spec.has_fixed_port() and not spec.asks_for_port():
        raise UsageError(
            f'service "{name}": it is asked on {{port}}, but neither its command nor its env holds {{port}}',
            hint='pass it on, as in command = "... --port {port}", or give ready a whole URL with a fixed port',
        )


def _check_variables(name: str, filled: FilledSpec) -> None:
    for key, value in filled.env.items():
        if not key or "=" in key or "\0" in key + value:
            raise UsageError(
                f'service "{name}": {key!r} cannot be an environment variable',
                hint="rename it in env",
            )


def _check_authorization(name: str, filled: FilledSpec) -> None:
    try:
        filled.probe.authorization_value(filled.env)
    except ValueError as error:
        raise UsageError(
            f'service "{name}": ready: {error}', hint="set it in the job, or in the service's env"
        ) from error


def _check_command(name: str, spec: ServiceSpec, filled: FilledSpec) -> None:
    if not filled.words or not filled.words[0]:
        raise UsageError(f'service "{name}": its command is empty', hint="say what to run")
    if any("\0" in word for word in filled.words):
        raise UsageError(f'service "{name}": its command holds a NUL character', hint="remove it")
    if isinstance(spec.command, str) and (operators := _SHELL_WORDS.intersection(filled.words)):
        raise UsageError(
            f'service "{name}": its command holds {" ".join(sorted(operators))}', hint=_SHELL_HINT
        )
    for label, words in (
        ("", filled.words),
        ("stop_command: ", filled.stop_words),
        ("ready: ", filled.probe.words),
    ):
        if words and (problem := _command_problem(words[0], filled)):
            message, hint = problem
            raise UsageError(f'service "{name}": {label}{message}', hint=hint)


def _command_problem(command: str, filled: FilledSpec) -> tuple[str, str] | None:
    if assignment := _ASSIGNMENT.match(command):
        return f"{command} is no command", f"set the variable as env = {{ {assignment[1]} = ... }}"
    if "/" in command:
        candidates = [filled.cwd / command]
    else:
        candidates = [filled.cwd / folder / command for folder in os.get_exec_path(filled.env)]
    if any(_executable(path) for path in candidates):
        return None
    if found := next((path for path in candidates if _is_file(path)), None):
        return (
            f"{found} is not executable",
            f"chmod +x {found}, or name the interpreter that runs it",
        )
    if "/" in command:
        state = (
            f"{candidates[0]} is a directory"
            if candidates[0].is_dir()
            else f"there is no {candidates[0]}"
        )
        return state, "check the path; a relative one begins at cwd"
    return f"command not found: {command}", _nearest_command(command, os.get_exec_path(filled.env))


def _executable(path: Path) -> bool:
    return _is_file(path) and os.access(path, os.X_OK)


def _is_file(path: Path) -> bool:
    # Path.is_file() raises where a folder on the way may not be entered; PATH may hold such folders.
    return os.path.isfile(path)  # noqa: PTH113


def _nearest_command(command: str, folders: Iterable[str]) -> str:
    known: set[str] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            known.update(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    close = difflib.get_close_matches(command, sorted(known), n=1)
    meant = f"did you mean `{close[0]}`? " if close else ""
    return f"{meant}install it, or give its whole path; PATH is {os.pathsep.join(folders)}"

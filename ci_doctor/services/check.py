# SPDX-License-Identifier: Apache-2.0
"""Reads PATH and directories: what is wrong with services before anything is started."""

import contextlib
import difflib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.machine.gpus import check_gpu_library
from ci_doctor.model.quantities import parse_duration
from ci_doctor.model.words import nearest
from ci_doctor.services.misuse import file_name
from ci_doctor.services.spec import (
    FilledSpec,
    LaunchContext,
    ServiceSpec,
    fill_spec,
    port_names,
    start_order,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
# None is reserved yet: the specification is only filled in to see whether it makes sense.
_ANY_PORT = 1


def check_services(
    specs: Mapping[str, ServiceSpec], names: Sequence[str], context: LaunchContext
) -> tuple[str, ...]:
    """The names to start in order: `names`, each after what it needs.

    Raises UsageError with a hint, which names the service: unknown name, cycle, command not found
    or not executable, missing cwd, a probe that cannot work, a bad duration.
    """
    order = start_order(specs, names)
    reserved = port_names(specs, order)
    owners: dict[int, str] = {}
    for name in order:
        filled = _check_service(name, specs[name], context, reserved)
        if specs[name].has_fixed_port():
            _check_fixed_port(name, filled.probe.port, owners)
        if "gpu-memory" in specs[name].released:
            check_gpu_library()
    return order


def _check_service(
    name: str, spec: ServiceSpec, context: LaunchContext, reserved: Iterable[str]
) -> FilledSpec:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'"{name}" cannot name a service',
            hint="use letters, digits, dots, underscores and hyphens",
        )
    _check_values(name, spec)
    try:
        filled = fill_spec(spec, context, dict.fromkeys(reserved, _ANY_PORT), name)
    except ValueError as error:
        hint = (
            'use for example "/health", "http://127.0.0.1:{port}/health" or '
            '"tcp://127.0.0.1:{port}"'
        )
        raise UsageError(f'service "{name}": {error}', hint=hint) from error
    _check_port(name, spec)
    _check_variables(name, filled)
    _check_authorization(name, filled)
    if not os.path.isdir(filled.cwd):  # noqa: PTH112 - Path.is_dir() raises if it may not look
        raise UsageError(
            f'service "{name}": its cwd {filled.cwd} is not a directory',
            hint="make it, or change cwd",
        )
    check_command(name, spec, filled)
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


def _check_fixed_port(name: str, port: int, owners: dict[int, str]) -> None:
    """Take note of the port; raise UsageError if another service has it."""
    if port in owners:
        raise UsageError(
            f'the probes of services "{owners[port]}" and "{name}" both name port {port}',
            hint="use {port} in one of them",
        )
    owners[port] = name


def _check_port(name: str, spec: ServiceSpec) -> None:
    placeholder = spec.probed_port()
    if placeholder is None or spec.takes_port(placeholder):
        return
    # `.http.port}` is the end of `{kv.http.port}`.
    if placeholder.startswith("."):
        placeholder = f"{{{name}{placeholder}"
    raise UsageError(
        f'service "{name}": its probe uses {placeholder}, but neither its command nor its env '
        "holds it",
        hint=f'pass it on, as in command = "... --port {placeholder}", or give ready a whole URL '
        "with a fixed port",
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


class _Interpreter(Struct, frozen=True):
    """How an interpreter finds its script.

    `alone` matches options without a value, `with_value` options whose value is the next word. Any
    other option may bring its program along (`-c`, `-m`, `-e`), and then no script is looked for.
    `suffixes` are what it adds to a name that is no file. `searches`: it looks for a name without a
    slash on PATH too.
    """

    name: re.Pattern[str]
    alone: re.Pattern[str]
    with_value: Collection[str] = ()
    suffixes: tuple[str, ...] = ()
    searches: bool = False


_INTERPRETERS = (
    _Interpreter(
        re.compile(r"(?:python|pypy)[\d.]*"), re.compile(r"-[bBdEhiIOPqsSuvVx]+"), ("-W", "-X")
    ),
    _Interpreter(
        re.compile(r"bash|sh|dash|ksh|zsh"),
        re.compile(r"[-+][abefhklmnptuvxBCEHPT]+|--(?:norc|noprofile|posix|login|verbose)"),
        ("-o", "+o", "-O", "+O"),
        # POSIX, `sh`, command_file; not all shells do it.
        searches=True,
    ),
    _Interpreter(
        re.compile(r"node|nodejs"),
        re.compile(r"--(?:inspect|trace|no-)[\w=-]*"),
        suffixes=(".js", ".json", ".node"),
    ),
    _Interpreter(re.compile(r"perl|ruby"), re.compile(r"-[wW]")),
)


def script_of(words: Sequence[str]) -> str | None:
    """The file that an interpreter is given to run; None if the words do not name one for sure."""
    interpreter = _interpreter(words[0]) if words else None
    if interpreter is None:
        return None
    index = 1
    while index < len(words):
        word = words[index]
        if word in interpreter.with_value:
            index += 2
        elif word == "--":
            index += 1
            break
        elif interpreter.alone.fullmatch(word):
            index += 1
        elif word.startswith(("-", "+")) or not word:
            return None
        else:
            break
    return words[index] if index < len(words) and words[index] != "-" else None


def _interpreter(word: str) -> _Interpreter | None:
    name = file_name(word)
    for interpreter in _INTERPRETERS:
        if interpreter.name.fullmatch(name):
            return interpreter
    return None


def check_scripts(
    specs: Mapping[str, ServiceSpec],
    order: Sequence[str],
    context: LaunchContext,
    elsewhere: Collection[str] = (),
) -> None:
    """Raises UsageError with a hint if a script of a service in `order` is not there.

    A service with needs may be waiting for one that makes its script. `elsewhere` are the words of
    commands that are known to run. A script that they name, in another directory perhaps, is no
    typing error, if there is a directory that it could be in.
    """
    names = {file_name(word) for word in elsewhere}
    ports = dict.fromkeys(port_names(specs, order), _ANY_PORT)
    for name in order:
        spec = specs[name]
        filled = fill_spec(spec, context, ports, name)
        script = script_of(filled.words)
        if script is None or spec.needs or _is_there(filled, script):
            continue
        path = filled.cwd / script
        if file_name(script) in names and path.parent.is_dir():
            continue
        raise UsageError(
            f'service "{name}": {Path(filled.words[0]).name} is to run {script}, and there is '
            f"no {path}",
            hint=_hint(path),
        )


def _is_there(filled: FilledSpec, script: str) -> bool:
    """Whether the interpreter of a service finds its script."""
    interpreter = _interpreter(filled.words[0])
    assert interpreter is not None  # noqa: S101 - there is a script
    path = filled.cwd / script
    if os.path.lexists(path):
        return True
    if interpreter.searches and "/" not in script:
        # Readable is enough for a shell.
        return shutil.which(script, os.R_OK, filled.env.get("PATH")) is not None
    return any(os.path.lexists(f"{path}{suffix}") for suffix in interpreter.suffixes)


def _hint(path: Path) -> str:
    advice = "check the path; a relative one begins at the service's cwd"
    try:
        names = sorted(os.listdir(path.parent))  # noqa: PTH208 - only names are needed
    except OSError:
        return advice
    close = difflib.get_close_matches(path.name, names, n=1)
    if close:
        return f"did you mean `{close[0]}`? {advice}"
    return advice

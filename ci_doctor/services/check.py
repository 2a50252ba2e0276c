# SPDX-License-Identifier: Apache-2.0
"""Reads PATH and directories: what is wrong with services before anything is started."""

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.machine.gpus import check_gpu_library
from ci_doctor.model.words import nearest, parse_duration
from ci_doctor.services.ready import NoProbeError, addresses
from ci_doctor.services.spec import (
    FilledSpec,
    LaunchContext,
    ServiceSpec,
    check_placeholders,
    file_name,
    fill_spec,
    placeholders_for,
    port_names,
    start_order,
)
from ci_doctor.system.files.access import near_path

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
    reserved = dict.fromkeys(port_names(specs, order), _ANY_PORT)
    owners: dict[int, str] = {}
    for name in order:
        spec = specs[name]
        filled = _checked(name, spec, context, reserved)
        port = filled.probe.port
        if spec.has_fixed_port() and owners.setdefault(port, name) != name:
            raise UsageError(
                f'the probes of services "{owners[port]}" and "{name}" both name port {port}',
                hint="use {port} in one of them",
            )
        if "gpu-memory" in spec.released:
            check_gpu_library()
    return order


# What is wrong, and what to do.
_Problem = tuple[str, str]


def _checked(
    name: str, spec: ServiceSpec, context: LaunchContext, reserved: Mapping[str, int]
) -> FilledSpec:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'"{name}" cannot name a service',
            hint="use letters, digits, dots, underscores and hyphens",
        )
    _check_placeholders(name, spec, placeholders_for(name, context, reserved))
    value: object = None
    hint: str | None
    for read, hint in (
        (spec.words, "close the quotation, or write the command as a list of words"),
        (spec.stop_words, "close the quotation, or write stop_command as a list of words"),
        (spec.start_timeout_s, 'write for example start_timeout = "400s"'),
        (lambda: parse_duration(spec.fatal_grace), 'write for example fatal_grace = "500ms"'),
        (lambda: parse_duration(spec.release_timeout), 'write for example release_timeout = "60s"'),
        (spec.log_limit_bytes, 'write for example log_limit = "64MiB"'),
        (lambda: _compile(spec.fatal), "mend `fatal`, or take it out"),
        (lambda: fill_spec(spec, context, reserved, name), None),
    ):
        try:
            value = read()
        except ValueError as error:
            advice = error.hint if isinstance(error, NoProbeError) else hint
            raise UsageError(f'service "{name}": {error}', hint=advice) from error
    assert isinstance(value, FilledSpec)  # noqa: S101 - the last one is
    for message, hint in (*_of_values(name, spec, value), *_of_commands(spec, value)):
        raise UsageError(f'service "{name}": {message}', hint=hint)
    return value


def _check_placeholders(name: str, spec: ServiceSpec, known: Mapping[str, str]) -> None:
    # What cannot be read is said below.
    texts = [*spec.env.values(), spec.cwd or "", spec.pidfile or ""]
    for read in (spec.words, spec.stop_words, lambda: addresses(spec.ready)):
        with contextlib.suppress(ValueError):
            texts += read()
    check_placeholders(f'service "{name}"', texts, known)


def _compile(pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ValueError(f"fatal = {pattern!r} is no regular expression: {error}") from error


def _of_values(name: str, spec: ServiceSpec, filled: FilledSpec) -> Iterator[_Problem]:
    placeholder = spec.probed_port()
    if placeholder is not None and not spec.takes_port(placeholder):
        # `.http.port}` is the end of `{kv.http.port}`.
        if placeholder.startswith("."):
            placeholder = f"{{{name}{placeholder}"
        yield (
            f"its probe uses {placeholder}, but neither its command nor its env holds it",
            (
                f'pass it on, as in command = "... --port {placeholder}", or give ready a whole '
                "URL with a fixed port"
            ),
        )
    for key, value in filled.env.items():
        if not key or "=" in key or "\0" in key + value:
            yield f"{key!r} cannot be an environment variable", "rename it in env"
    for key, probe in filled.probes().items():
        try:
            probe.authorization_value(filled.env)
        except ValueError as error:
            yield f"{key}: {error}", "set it in the job, or in the service's env"
    if not os.path.isdir(filled.cwd):  # noqa: PTH112 - Path.is_dir() raises if it may not look
        yield f"its cwd {filled.cwd} is not a directory", "make it, or change cwd"


_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_SHELL_WORDS = frozenset({"|", "||", "&&", "&", ";", "<", ">", ">>", "2>", "2>&1", "&>"})
_SHELL_HINT = 'no shell runs it; write command = ["bash", "-c", "..."] if it needs one'


def _of_commands(spec: ServiceSpec, filled: FilledSpec) -> Iterator[_Problem]:
    """Whether `command`, `stop_command` and the probe's command can be run."""
    if not filled.words or not filled.words[0]:
        yield "its command is empty", "name what to run"
        return
    if "\0" in "".join(filled.words):
        yield "its command holds a NUL character", "remove it"
    operators = _SHELL_WORDS.intersection(filled.words)
    if operators and isinstance(spec.command, str):  # a list of words may hold a `|` on purpose
        yield f"its command holds {' '.join(sorted(operators))}", _SHELL_HINT
    for label, words in (
        ("", filled.words),
        ("stop_command: ", filled.stop_words),
        *(
            (f"{key}: ", part.words)
            for key, probe in filled.probes().items()
            for part in probe.leaves()
        ),
    ):
        # There may be no stop_command, or another kind of probe.
        problem = _command_problem(words[0], filled.env, filled.cwd) if words else None
        if problem is not None:
            yield f"{label}{problem[0]}", problem[1]


def _command_problem(
    command: str, environment: Mapping[str, str], directory: Path
) -> _Problem | None:
    """Why `command` cannot be run and what to do; None if it can."""
    assignment = _ASSIGNMENT.match(command)
    if assignment is not None:
        return f"{command} is no command", f"set the variable as env = {{ {assignment[1]} = ... }}"
    paths = candidates(command, environment, directory)
    if any(map(is_executable, paths)):
        return None
    # As execvp(3) does it: a file that may not be run is passed over, and reported only at the end.
    for path in paths:
        if _is_file(path):
            return (
                f"{path} is not executable",
                f"chmod +x {path}, or name the interpreter that runs it",
            )
    if "/" in command:
        state = f"{paths[0]} is a directory" if paths[0].is_dir() else f"there is no {paths[0]}"
        return state, "check the path; a relative one begins at cwd"
    return f"command not found: {command}", _nearest_command(command, os.get_exec_path(environment))


def candidates(command: str, environment: Mapping[str, str], directory: Path) -> list[Path]:
    """Where `command` may lie, as execvp(3) looks for it."""
    folders = [""] if "/" in command else os.get_exec_path(environment)
    return [directory / folder / command for folder in folders]


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


# An interpreter, its options without a value, and a file by its name.
_SCRIPT = re.compile(
    r"(?:(?:python|pypy)[\d.]*(?: -[bBdEiIOPqsSuvx]+)*|(?:ba|da|k|z)?sh(?: [-+][abefhkmnptuvx]+)*"
    r"|node(?:js)?|(?:perl|ruby)(?: -w)*) (?P<script>[^- ]\S*\.(?:py|sh|bash|zsh|js|mjs|pl|rb))(?: |$)"
)


def script_of(words: Sequence[str]) -> str | None:
    """The file that an interpreter is given to run; None if the words do not name one for sure."""
    match = _SCRIPT.match(" ".join((file_name(words[0]), *words[1:])))
    return match["script"] if match else None


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
        path = None if spec.needs else _missing_script(filled.words, filled.env, filled.cwd)
        if path is None or (path.name in names and path.parent.is_dir()):
            continue
        raise _script_error(f'service "{name}"', filled.words, path, "the service's cwd")


def check_command(
    key: str, words: Sequence[str], environment: Mapping[str, str], directory: Path
) -> None:
    """Raises UsageError with a hint if a command, or the script that it names, is not there.

    `key` is the setting. What a placeholder names is known only later.
    """
    if "{" not in words[0] and (problem := _command_problem(words[0], environment, directory)):
        raise UsageError(f"{key}: {problem[0]}", hint=problem[1])
    path = _missing_script(words, environment, directory)
    if path is not None and "{" not in path.name:
        raise _script_error(key, words, path, "the configuration's directory")


def _missing_script(
    words: Sequence[str], environment: Mapping[str, str], directory: Path
) -> Path | None:
    """Where the script of these words is to be; None if it is there, or if they name none for sure."""
    script = script_of(words)
    if script is None or shutil.which(script, os.F_OK, path=environment.get("PATH")):
        return None
    path = directory / script
    return None if os.path.lexists(path) else path


def _script_error(who: str, words: Sequence[str], path: Path, start: str) -> UsageError:
    message = f"{who}: {file_name(words[0])} is to run {script_of(words)}, and there is no {path}"
    advice = f"check the path; a relative one begins at {start}"
    near = near_path(path)
    return UsageError(message, hint=f"{near} {advice}" if near is not None else advice)

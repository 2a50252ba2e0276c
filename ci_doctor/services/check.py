# SPDX-License-Identifier: Apache-2.0
"""Reads PATH and directories: what is wrong with services before anything is started."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from ci_doctor.errors import UsageError
from ci_doctor.machine.gpus import check_gpu_library
from ci_doctor.model.parse_duration import parse_duration
from ci_doctor.services.command_check import check_command
from ci_doctor.services.port_names import port_names
from ci_doctor.services.spec import FilledSpec, LaunchContext, ServiceSpec, fill_spec
from ci_doctor.services.start_order import start_order

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

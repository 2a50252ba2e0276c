# SPDX-License-Identifier: Apache-2.0
"""Reads PATH: the command that runs under a group of services, its words and its environment."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.services.command_check import is_executable
from ci_doctor.services.instance import RunningService
from ci_doctor.services.launch.conclude import NOT_EXECUTABLE, NOT_FOUND
from ci_doctor.services.spec import fill

# `{kv.port}`; a template of the command's own, `{{server.port}}`, stays as it is.
_PORT = re.compile(r"(?<!\{)\{([A-Za-z0-9][A-Za-z0-9_.-]*)\.port\}(?!\})", re.ASCII)
_NO_NAME = re.compile(r"[^A-Z0-9]", re.ASCII)


def check_words(
    words: Sequence[str], names: Collection[str], further_ports: Collection[str] = ()
) -> None:
    """Check the client's words against the `names` of the services and their further ports.

    Raises UsageError if a word holds the port of an unknown service, or two services would share a
    variable.
    """
    known = (*names, *further_ports)
    for word in words:
        for match in _PORT.finditer(word):
            if match[1] not in known:
                raise UsageError(
                    f"{match[0]} in the command: no service is named `{match[1]}`",
                    hint=did_you_mean(match[1], known),
                )
    prefixes: dict[str, str] = {}
    for name in names:
        prefix = _variable(name)
        if prefix in prefixes:
            raise UsageError(
                f'services "{prefixes[prefix]}" and "{name}" would share the variables {prefix}_…',
                hint="rename one of them",
            )
        prefixes[prefix] = name


def filled_words(
    words: Sequence[str], services: Iterable[RunningService], reserved: Mapping[str, int]
) -> tuple[str, ...]:
    """`words` with `{NAME.port}` replaced for each service, and for each further port.

    `reserved` are the group's ports by what stands before `.port`.
    """
    ports = {}
    for name, port in reserved.items():
        ports[f"{name}.port"] = str(port)
    for service in services:
        # It listens on a fixed port, so nobody is on the reserved one.
        if service.port not in reserved.values():
            ports[f"{service.name}.port"] = str(service.port)
    return tuple(fill(word, ports) for word in words)


def client_environment(
    environment: Mapping[str, str], services: Iterable[RunningService]
) -> dict[str, str]:
    """`environment` and where each service is.

    That is `CI_DOCTOR_SERVICES_<NAME>_PORT`, `_URL` and `_LOG`.
    """
    whole = dict(environment)
    for service in services:
        prefix = _variable(service.name)
        whole[f"{prefix}_PORT"] = str(service.port)
        whole[f"{prefix}_URL"] = service.base_url
        whole[f"{prefix}_LOG"] = str(service.log)
    return whole


def _variable(name: str) -> str:
    return f"CI_DOCTOR_SERVICES_{_NO_NAME.sub('_', name.upper())}"


def problem(
    command: str, environment: Mapping[str, str], directory: Path
) -> tuple[int, str] | None:
    """Why `command` cannot be run in `directory`; None if it can.

    Returns the exit status of a shell (127, 126) and a sentence.
    """
    exists = False
    for path in _candidates(command, environment, directory):
        if is_executable(path):
            return None
        if os.path.exists(path):  # noqa: PTH110 - PATH may hold folders that we may not enter
            exists = True
    if exists:
        return NOT_EXECUTABLE, f"{command}: not an executable file"
    if "/" in command:
        return NOT_FOUND, f"{command}: no such file"
    return NOT_FOUND, f"{command}: command not found"


def _candidates(command: str, environment: Mapping[str, str], directory: Path) -> Iterator[Path]:
    if "/" in command:
        yield directory / command
    elif command:
        for folder in os.get_exec_path(environment):
            yield directory / folder / command

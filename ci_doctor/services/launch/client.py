# SPDX-License-Identifier: Apache-2.0
"""The command that is run under a group of services: its words, its environment, whether it can be run. Reads PATH."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.services.instance import RunningService
from ci_doctor.services.spec import fill

# `{kv.port}`; a template of the command's own, `{{server.port}}`, is none of ours.
_PORT = re.compile(r"(?<!\{)\{([A-Za-z0-9][A-Za-z0-9_.-]*)\.port\}(?!\})", re.ASCII)
_NO_NAME = re.compile(r"[^A-Z0-9]", re.ASCII)
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell has it


def check_words(words: Sequence[str], names: Collection[str]) -> None:
    """Raises UsageError where a word asks for the port of a service that is not there, or two share a variable."""
    for word in words:
        for match in _PORT.finditer(word):
            if match[1] not in names:
                raise UsageError(
                    f"{match[0]} in the command: no service is named `{match[1]}`",
                    hint=did_you_mean(match[1], names),
                )
    prefixes: dict[str, str] = {}
    for name in names:
        if other := prefixes.get(_variable(name)):
            raise UsageError(
                f'services "{other}" and "{name}" would share the variables {_variable(name)}_…',
                hint="rename one of them",
            )
        prefixes[_variable(name)] = name


def filled_words(words: Sequence[str], services: Iterable[RunningService]) -> tuple[str, ...]:
    """`words` with `{NAME.port}` replaced for each service."""
    ports = {f"{service.name}.port": str(service.port) for service in services}
    return tuple(fill(word, ports) for word in words)


def client_environment(
    environment: Mapping[str, str], services: Iterable[RunningService]
) -> dict[str, str]:
    """`environment` and where each service is: `CI_DOCTOR_SERVICES_<NAME>_PORT`, `_URL` and `_LOG`."""
    told = dict(environment)
    for service in services:
        prefix = _variable(service.name)
        told[f"{prefix}_PORT"] = str(service.port)
        told[f"{prefix}_URL"] = service.base_url
        told[f"{prefix}_LOG"] = str(service.log)
    return told


def _variable(name: str) -> str:
    return f"CI_DOCTOR_SERVICES_{_NO_NAME.sub('_', name.upper())}"


def problem(
    command: str, environment: Mapping[str, str], directory: Path
) -> tuple[int, str] | None:
    """Why `command` cannot be run in `directory`, with a shell's exit status (127, 126); None where it can."""
    if "/" in command:
        candidates = [directory / command]
    else:
        candidates = (
            [directory / folder / command for folder in os.get_exec_path(environment)]
            if command
            else []
        )
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in candidates):  # noqa: PTH113 - PATH may hold folders that we may not enter
        return None
    if any(os.path.exists(path) for path in candidates):  # noqa: PTH110
        return NOT_EXECUTABLE, f"{command}: not an executable file"
    return NOT_FOUND, f"{command}: " + ("no such file" if "/" in command else "command not found")

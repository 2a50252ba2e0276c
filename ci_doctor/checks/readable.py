# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether the values of `[doctor]` can be read: a limit that cannot is no limit at all."""

import re
import shlex
from collections.abc import Callable
from typing import Any, Final

from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.errors import ConfigError
from ci_doctor.model.parse_size import parse_size

# Names and addresses; not a URL, and not empty.
_HOST: Final = re.compile(r"[\w.:%-]+")


def require_readable(settings: DoctorSettings, where: Callable[[str], str]) -> None:
    """Raises ConfigError for the first value that no check could use.

    `where` maps a key to the place that the error names.
    """
    readers: dict[str, Callable[[Any], object]] = {
        "min_free": parse_size,
        "shared_memory": parse_size,
        "gpu_memory_free": _require_share,
        "hosts": _require_hosts,
        "entry_points": _require_commands,
    }
    for key, read in readers.items():
        try:
            read(getattr(settings, key))
        except ValueError as error:
            raise ConfigError(f"{where(key)}: {key}: {error}") from error


def _require_share(share: float | None) -> None:
    # A share that is no number at all (nan) is within no bounds.
    if share is not None and not 0 <= share <= 1:
        raise ValueError(f"{share:g} is no share; write a number from 0 to 1")


def _require_hosts(hosts: list[str]) -> None:
    for host in hosts:
        if _HOST.fullmatch(host) is None:
            raise ValueError(f'"{host}" is no name of a host')


def _require_commands(commands: list[str]) -> None:
    for command in commands:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"`{command}`: {error}") from error
        if not words or not words[0]:
            raise ValueError("a command is empty")

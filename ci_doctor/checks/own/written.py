# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a check of the repository can be run as it is written."""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Final

from ci_doctor.checks.settings import OwnCheck
from ci_doctor.errors import ConfigError
from ci_doctor.model.parse_duration import parse_duration

# No program of a check runs longer (LimitedRuns).
_LONGEST_S: Final = 600.0
_NAME: Final = re.compile(r"[\w][\w.-]*")


def words_of(own: OwnCheck) -> list[str]:
    """The words of its command. Raises ValueError if there is none, or if none can be made of it."""
    words = _split(own.command)
    if not words or not words[0]:
        raise ValueError("the command is empty")
    # execve(2) takes words that end at the first such byte.
    if any("\0" in word for word in words):
        raise ValueError("a word of the command has a null byte")
    return words


def _split(command: str | list[str]) -> list[str]:
    if isinstance(command, str):
        return shlex.split(command)
    return list(command)


def timeout_s(own: OwnCheck) -> float:
    """Its deadline in seconds. Raises ValueError if that is no duration, none at all, or too long."""
    seconds = parse_duration(own.timeout)
    if seconds <= 0:
        raise ValueError("the timeout must be more than 0")
    if seconds > _LONGEST_S:
        raise ValueError("the timeout must be at most 10 min")
    return seconds


def require_runnable(checks: Mapping[str, OwnCheck], where: Callable[..., str]) -> None:
    """Raises ConfigError for the first check that cannot be run as it is written.

    `where` maps a path of keys below `checks` to the place that the error names.
    """
    for name, own in checks.items():
        if _NAME.fullmatch(name) is None:
            raise ConfigError(
                f"{where(name)}: `{name}` is no name of a check",
                hint="use letters, digits, `.`, `_` and `-`",
            )
        for key, read in (("command", words_of), ("timeout", timeout_s)):
            try:
                read(own)
            except ValueError as error:
                raise ConfigError(f"{where(name, key)}: {name}.{key}: {error}") from error

# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[doctor]` section, and whether its values can be used: a limit that cannot is none."""

import re
import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Literal

from msgspec import Struct

from ci_doctor.errors import ConfigError
from ci_doctor.model.words import parse_duration, parse_size

# No program of a check runs longer (LimitedRuns).
_LONGEST_S: Final = 600.0
_NAME: Final = re.compile(r"[\w][\w.-]*")
# Names and addresses; not a URL, and not empty.
_HOST: Final = re.compile(r"[\w.:%-]+")


class Workload(StrEnum):
    """What `ci-doctor doctor --for` names."""

    VLLM = "vllm"
    LMCACHE = "lmcache"
    SGLANG = "sglang"
    CORRECTNESS = "correctness"


ALL: Final = frozenset(Workload)
# Those that start a server on a GPU.
SERVING: Final = frozenset({Workload.VLLM, Workload.LMCACHE, Workload.SGLANG})
NONE: Final[frozenset[Workload]] = frozenset()
WorkloadName = Literal["vllm", "lmcache", "sglang", "correctness"]


class OwnCheck(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check of the repository: a command, split as a shell would split words; no shell runs it.

    Exit status 0 is ok, 75 an error of the environment; 86, 126, 127 and the end by a signal are
    unknown; any other is a problem of `severity`, the fault of `fault`. The last line on stdout is the summary. `timeout` is seconds or
    text for parse_duration. `needed_for` names the workloads whose verdict rests on it.
    """

    command: str | list[str]
    timeout: str | int | float = "5s"
    fault: Literal["environment", "repository"] = "environment"
    severity: Literal["error", "warning"] = "error"
    remedy: str | None = None
    needed_for: list[WorkloadName] = []


class DoctorSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of `[doctor]`.

    `workload` is what `--for` names. `skip` are ids of checks, or patterns (fnmatch). `caches` are
    further directories whose disk is checked; `min_free` is what each disk must have free, bytes or
    text for parse_size. `shared_memory` is what /dev/shm must have. `gpu_memory_free` is the share
    (0 to 1) of each GPU's memory that must be free if no service says what it needs. `entry_points`
    are commands for `--imports`. `hosts` are names that must have an address. `since_green` is the
    snapshot, or the report directory, of the last green run.
    """

    workload: WorkloadName | None = None
    strict: bool = False
    skip: list[str] = []
    venvs: list[str] = []
    pythons: list[str] = []
    caches: list[str] = []
    min_free: str | int = "5GiB"
    shared_memory: str | int = "1GiB"
    gpu_memory_free: float | None = None
    entry_points: list[str] = []
    hosts: list[str] = []
    since_green: str | None = None
    checks: dict[str, OwnCheck] = {}


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


def words_of(own: OwnCheck) -> list[str]:
    """The words of its command. Raises ValueError if there is none, or if none can be made of it."""
    command = own.command
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words or not words[0]:
        raise ValueError("the command is empty")
    # execve(2) takes words that end at the first such byte.
    if any("\0" in word for word in words):
        raise ValueError("a word of the command has a null byte")
    return words


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

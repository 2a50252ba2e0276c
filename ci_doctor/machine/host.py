# SPDX-License-Identifier: Apache-2.0
"""Reads the host: small files of the kernel, CPUs, resource limits, locale, release."""

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

ROOT = Path("/")


# By the names of limits.conf(5).
_LIMITS: Mapping[str, int] = {
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "memlock": resource.RLIMIT_MEMLOCK,
    "stack": resource.RLIMIT_STACK,
    "core": resource.RLIMIT_CORE,
    "as": resource.RLIMIT_AS,
}


class ResourceLimit(Struct, frozen=True, kw_only=True):
    """A soft and a hard limit (getrlimit(2)); resource.RLIM_INFINITY is none."""

    soft: int
    hard: int

    @property
    def is_unlimited(self) -> bool:
        """Whether the soft limit is none."""
        return self.soft == resource.RLIM_INFINITY

    def shown(self) -> str:
        """`4096`, or `unlimited`."""
        return "unlimited" if self.is_unlimited else str(self.soft)


def content_of(path: Path) -> str:
    """The file's text; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def number_of(path: Path) -> int | None:
    """The whole number in a file; None if it cannot be read, or holds something else ("max")."""
    return _number(content_of(path))


def numbers_of(path: Path) -> dict[str, int]:
    """The numbers of a file with `name number` lines, such as meminfo; empty if it cannot be read.

    A colon after the name and a unit after the number are left out.
    """
    numbers = {}
    for line in content_of(path).splitlines():
        words = line.replace(":", " ").split()
        number = _number(words[1]) if len(words) > 1 else None
        if number is not None:
            numbers[words[0]] = number
    return numbers


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def fields_of(path: Path, separator: str, *, is_first_block: bool = False) -> dict[str, str]:
    """The `key SEPARATOR value` lines of a file; of two with one key the first. Raises OSError.

    Quotes around a value are left out (os-release(5)). `is_first_block`: up to the first empty line,
    which of /proc/cpuinfo is one CPU: a large machine writes hundreds of kilobytes, all alike.
    """
    fields: dict[str, str] = {}
    with path.open(errors="replace") as file:
        for line in file:
            if is_first_block and not line.strip():
                break
            key, found, value = line.partition(separator)
            if found:
                fields.setdefault(key.strip(), value.strip().strip("\"'"))
    return fields


def first_cpu(proc: Path = ROOT / "proc") -> dict[str, str]:
    """The fields of the first CPU in /proc/cpuinfo; empty if it cannot be read."""
    try:
        return fields_of(proc / "cpuinfo", ":", is_first_block=True)
    except OSError:
        return {}


def libc_version() -> str | None:
    """Such as `glibc 2.36`; None for another C library."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):  # another libc has no such name
        return None


def kernel_parameter_file(name: str, root: Path = ROOT) -> Path:
    """The file of a sysctl such as `vm.max_map_count`."""
    return root.joinpath("proc", "sys", *name.split("."))


def chosen_word(text: str) -> str:
    """The value of a kernel's file; of a list of words the one in brackets."""
    words = text.split()
    for word in words:
        if word.startswith("[") and word.endswith("]"):
            return word[1:-1]
    return " ".join(words)


def resource_limits() -> dict[str, ResourceLimit]:
    """The limits of this process, which the job inherits, by the names of limits.conf(5)."""
    limits = {}
    for name, number in _LIMITS.items():
        soft, hard = resource.getrlimit(number)
        limits[name] = ResourceLimit(soft=soft, hard=hard)
    return limits


def effective_locale(environ: Mapping[str, str]) -> str:
    """The locale of characters: LC_ALL, else LC_CTYPE, else LANG; empty if none is set."""
    return environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""

# SPDX-License-Identifier: Apache-2.0
"""Pure. What a person asks of `compat`."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError


class CompatRequest(Struct, frozen=True, kw_only=True):
    """Sources as they were typed.

    python: the interpreter whose packages may be named. python_version: what `sys.version_info`
    guards are decided by.
    """

    caller: str
    callees: tuple[str, ...]
    python: Path | None
    python_version: tuple[int, int]


def version_pair(text: str | None) -> tuple[int, int] | None:
    """`3.12` as numbers. Raises UsageError if it is no version of Python."""
    if text is None:
        return None
    major, dot, minor = text.partition(".")
    if not dot or not major.isdecimal() or not minor.isdecimal():
        raise UsageError(f"--python-version {text} is no version", hint="write it like 3.12")
    return int(major), int(minor)

# SPDX-License-Identifier: Apache-2.0
"""Reads the environment and files: a token or an address, or why there is none."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

_MOST_BYTES = 64 * 1024


class SecretValue(Struct, frozen=True):
    """A value that must not be shown. Its text is of no use in a message."""

    value: str

    def __repr__(self) -> str:
        return "SecretValue(…)"


def read_secret(
    variable: str | None, file: Path | None, environ: Mapping[str, str]
) -> SecretValue | str:
    """The secret, or a sentence on why there is none. The variable is set to nothing for a fork's job."""
    if file is not None:
        return _from_file(file)
    value = environ.get(variable or "", "").strip()
    if not value:
        return f"${variable} is not set"
    return SecretValue(value)


def _from_file(file: Path) -> SecretValue | str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        return f"{file} cannot be read: {error.strerror or type(error).__name__}"
    value = content.decode(errors="replace").strip()
    if not value:
        return f"{file} is empty"
    if len(content) > _MOST_BYTES or len(value.splitlines()) > 1:
        return f"{file} holds more than one line"
    return SecretValue(value)

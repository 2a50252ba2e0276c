# SPDX-License-Identifier: Apache-2.0
"""Pure. A shell program: a file of its own, or one that stands inside another file."""

from enum import StrEnum

from msgspec import Struct


class Shell(StrEnum):
    """Who runs the program; rules of bash do not hold for all of them."""

    BASH = "bash"
    SH = "sh"
    OTHER = "other"


class ShellSource(Struct, frozen=True, kw_only=True):
    """The text of a program with its place.

    lines: for each line of `text`, its 1-based line in `file`; None if `text` is the whole file.
    offset: where `text` begins in `file`, in characters; None if it does not stand there as it is,
    so that no edit can be made. errexit, pipefail: options that the program's caller sets,
    as `bash -e -c` of Buildkite's agent does. embedded: what it stands in, such as "the command of
    step 'tests'"; None for a file of its own.
    """

    file: str
    text: str
    shell: Shell = Shell.BASH
    lines: tuple[int, ...] | None = None
    offset: int | None = 0
    errexit: bool = False
    pipefail: bool = False
    embedded: str | None = None

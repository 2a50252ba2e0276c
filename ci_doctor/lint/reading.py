# SPDX-License-Identifier: Apache-2.0
"""Pure. What a reader of one kind of file gives back, and the table of the readers."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from ci_doctor.lint.shell.shell_source import ShellSource
from ci_doctor.lint.unreadable import Unreadable
from ci_doctor.lint.violation import Violation

# A path relative to the root -> the text of that file; None if there is none to read.
ReadText = Callable[[str], str | None]


class FileReading(Struct, frozen=True, kw_only=True):
    """What the rules of one reader say of a file; `scripts` stand in it and are read next."""

    violations: tuple[Violation, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    scripts: tuple[ShellSource, ...] = ()


class Readers(Struct, frozen=True, kw_only=True):
    """The readers, each a function of texts.

    shell: of a script, and of files that it sources. pipeline: of a YAML file by name and text; None
    if it is no pipeline. python: the same for a program; None if it decides nothing in a job.
    consistency: of several files by name, and whether these are all files of a repository.
    """

    shell: Callable[[ShellSource, ReadText], FileReading]
    pipeline: Callable[[str, str], FileReading | None]
    python: Callable[[str, str], FileReading | None]
    consistency: Callable[[Mapping[str, str], bool], tuple[Violation, ...]]

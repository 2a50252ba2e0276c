# SPDX-License-Identifier: Apache-2.0
"""Pure. One file by the readers of its kind, with the scripts that stand in it."""

import re
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.lint.reading import FileReading, Readers, ReadText
from ci_doctor.lint.shell.shell_source import ShellSource
from ci_doctor.lint.source_kind import SourceKind, shell_of
from ci_doctor.lint.unreadable import Unreadable
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity


class CiRole(StrEnum):
    """What a file is in CI; it decides the rules that look at it."""

    SCRIPT = "scripts"
    PIPELINE = "pipelines"
    GATE = "gates"
    OTHER = "other files"


class FileExamination(Struct, frozen=True, kw_only=True):
    """What the rules say of one file. embedded: how many scripts stand in it."""

    role: CiRole
    violations: tuple[Violation, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    embedded: int = 0


def examine(
    file: str, text: str, kind: SourceKind, readers: Readers, read: ReadText
) -> FileExamination:
    """The violations of `file` by the rules of single files.

    read: gives the text of another file of the repository, which a script may source.
    """
    examination = _examined(file, text, kind, readers, read)
    if not _FIXTURES.search(file):
        return examination
    # What a test feeds to a program breaks no job: it is often wrong on purpose.
    softened = tuple(
        replace(each, severity=Severity.WARNING) if _is_error(each) else each
        for each in examination.violations
    )
    return replace(examination, violations=softened)


_FIXTURES = re.compile(
    r"(?:^|/)(?:__)?(?:fixtures?|test[_-]?data|testdata|test[_-]?fixtures?|golden|snapshots?|corpus)(?:__)?/"
)


def _is_error(violation: Violation) -> bool:
    return (violation.severity or violation.rule.rule.severity) is Severity.ERROR


def _examined(
    file: str, text: str, kind: SourceKind, readers: Readers, read: ReadText
) -> FileExamination:
    match kind:
        case SourceKind.SHELL:
            return _examination(CiRole.SCRIPT, readers.shell(_script(file, text), read))
        case SourceKind.YAML:
            pipeline = readers.pipeline(file, text)
            if pipeline is not None:
                return _with_scripts(pipeline, readers, read)
        case SourceKind.PYTHON:
            gate = readers.python(file, text)
            if gate is not None:
                return _examination(CiRole.GATE, gate)
        # Rules over several files alone look at these.
        case SourceKind.TOML | SourceKind.DOCKERFILE:
            pass
    return FileExamination(role=CiRole.OTHER)


def _script(file: str, text: str) -> ShellSource:
    # `#!/bin/bash -e`: the kernel hands one option on, with all its letters.
    words = text[:256].partition("\n")[0].split()
    options = words[1:] if words and words[0].startswith("#!") else []
    errexit = any(word.startswith("-") and "e" in word for word in options if "S" not in word)
    return ShellSource(file=file, text=text, shell=shell_of(file, text), errexit=errexit)


def _with_scripts(pipeline: FileReading, readers: Readers, read: ReadText) -> FileExamination:
    violations = list(pipeline.violations)
    unreadable = list(pipeline.unreadable)
    for script in pipeline.scripts:
        reading = readers.shell(script, read)
        violations += reading.violations
        unreadable += reading.unreadable
    return FileExamination(
        role=CiRole.PIPELINE,
        violations=tuple(violations),
        unreadable=tuple(unreadable),
        embedded=len(pipeline.scripts),
    )


def _examination(role: CiRole, reading: FileReading) -> FileExamination:
    return FileExamination(role=role, violations=reading.violations, unreadable=reading.unreadable)

# SPDX-License-Identifier: Apache-2.0
"""Reads files by the readers of their kinds, each loaded when the first file of its kind comes."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_doctor.lint.lint_rule import Violation
from ci_doctor.lint.lint_run import Readers, ReadText
from ci_doctor.lint.source_files import (
    CiRole,
    FileReading,
    LintTree,
    RepositoryTexts,
    ShellSource,
    SourceKind,
    SourceText,
    StartedProgram,
    kind_by_name,
    matches,
    shell_of,
    started_programs,
)
from ci_doctor.model.finding import Severity

if TYPE_CHECKING:
    from ci_doctor.lint.pipelines.pipeline_file import PipelineContext


def readers_of(tree: LintTree, texts: RepositoryTexts) -> Readers:
    """The readers for `tree`."""
    context: PipelineContext | None = None
    pipelines = RepositoryPipelines(tree, texts)

    def pipeline(file: str, text: str) -> FileReading | None:
        nonlocal context
        from ci_doctor.lint.pipelines.check import check_pipeline
        from ci_doctor.lint.pipelines.pipeline_file import is_pipeline

        if not is_pipeline(file, text):
            return None
        if context is None:
            context = _context(tree, texts, pipelines)
        return check_pipeline(file, text, context)

    def python(file: str, text: str) -> FileReading | None:
        from ci_doctor.lint.python.check import check_python, is_gate

        if not is_gate(file) and not pipelines.start(file):
            return None
        return check_python(file, text)

    def shell(source: ShellSource, read: ReadText) -> FileReading:
        from ci_doctor.lint.shell.check import check_shell

        return check_shell(source, read)

    def consistency(files: Mapping[str, str], whole: bool) -> tuple[Violation, ...]:
        from ci_doctor.lint.consistency.check import check_consistency

        return check_consistency(files, whole=whole)

    return Readers(shell=shell, pipeline=pipeline, python=python, consistency=consistency)


def _context(
    tree: LintTree,
    texts: RepositoryTexts,
    pipelines: "RepositoryPipelines",
) -> "PipelineContext":
    from ci_doctor.lint.pipelines.pipeline_file import PipelineContext

    def has_match(pattern: str) -> bool | None:
        # Without a repository nobody knows all of its files.
        if tree.listed is None:
            return None
        return any(matches(pattern, name) for name in tree.listed())

    return PipelineContext(
        matches=has_match,
        read=texts.read,
        others=pipelines,
    )


class RepositoryPipelines(Mapping[str, str]):
    """The texts of all pipelines of a repository by file, read when a rule looks at them."""

    def __init__(self, tree: LintTree, texts: RepositoryTexts) -> None:
        self._tree = tree
        self._texts = texts

    @cached_property
    def _by_file(self) -> dict[str, str]:
        from ci_doctor.lint.pipelines.pipeline_file import is_pipeline

        names = (
            self._tree.listed() if self._tree.listed else (each.file for each in self._tree.files)
        )
        pipelines = {}
        for name in names:
            source = self._texts.source(name) if kind_by_name(name) is SourceKind.YAML else None
            if isinstance(source, SourceText) and is_pipeline(name, source.text):
                pipelines[name] = source.text
        return pipelines

    @cached_property
    def _started(self) -> list[StartedProgram]:
        texts = self._by_file.values()
        return [each for text in texts for each in started_programs(text)]

    def start(self, file: str) -> bool:
        """Whether a command of a pipeline may start the Python program `file`."""
        return any(each.may_be(file) for each in self._started)

    def __getitem__(self, file: str) -> str:
        return self._by_file[file]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_file)

    def __len__(self) -> int:
        return len(self._by_file)


# One file by the readers of its kind, with the scripts that stand in it.


def examine(
    file: str, text: str, kind: SourceKind, readers: Readers, read: ReadText
) -> FileReading:
    """The violations of `file` by the rules of single files, with those of the scripts that stand in it.

    read: gives the text of another file of the repository, which a script may source.
    """
    reading = _read(file, text, kind, readers, read)
    if not _FIXTURES.search(file):
        return reading
    # What a test feeds to a program breaks no job: it is often wrong on purpose.
    softened = tuple(
        replace(each, severity=Severity.WARNING)
        if ((each.severity or each.rule.rule.severity) is Severity.ERROR)
        else each
        for each in reading.violations
    )
    return replace(reading, violations=softened)


_FIXTURES = re.compile(
    r"(?:^|/)(?:__)?(?:fixtures?|test[_-]?data|testdata|test[_-]?fixtures?|golden|snapshots?|corpus)(?:__)?/"
)


def _read(file: str, text: str, kind: SourceKind, readers: Readers, read: ReadText) -> FileReading:
    reading: FileReading | None = None
    match kind:
        case SourceKind.SHELL:
            reading = readers.shell(_script(file, text), read)
        case SourceKind.YAML:
            reading = readers.pipeline(file, text)
        case SourceKind.PYTHON:
            reading = readers.python(file, text)
        # Rules over several files alone look at these.
        case SourceKind.TOML | SourceKind.DOCKERFILE:
            pass
    if reading is None:
        return FileReading(role=CiRole.OTHER)
    inner = [readers.shell(script, read) for script in reading.scripts]
    return replace(
        reading,
        violations=sum((each.violations for each in inner), reading.violations),
        unreadable=sum((each.unreadable for each in inner), reading.unreadable),
    )


def _script(file: str, text: str) -> ShellSource:
    # `#!/bin/bash -e`: the kernel hands one option on, with all its letters.
    words = text[:256].partition("\n")[0].split()
    options = words[1:] if words and words[0].startswith("#!") else []
    errexit = any(word.startswith("-") and "e" in word for word in options if "S" not in word)
    return ShellSource(file=file, text=text, shell=shell_of(file, text), errexit=errexit)

# SPDX-License-Identifier: Apache-2.0
"""Reads files of the repository when a rule asks: the readers of lint, and what they know of it.

Each reader is loaded when the first file of its kind comes: a parser costs a part of a start.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from ci_doctor.lint.path_pattern import matches
from ci_doctor.lint.reading import FileReading, Readers, ReadText
from ci_doctor.lint.repository_texts import RepositoryTexts
from ci_doctor.lint.shell.shell_source import ShellSource
from ci_doctor.lint.source_kind import SourceKind, kind_by_name
from ci_doctor.lint.source_text import SourceText
from ci_doctor.lint.source_tree import LintTree
from ci_doctor.lint.started_programs import StartedProgram, started_programs
from ci_doctor.lint.violation import Violation

if TYPE_CHECKING:
    from ci_doctor.lint.pipelines.pipeline_context import CorrectnessTimes, PipelineContext


def readers_of(
    tree: LintTree, texts: RepositoryTexts, correctness: "CorrectnessTimes | None" = None
) -> Readers:
    """The readers for `tree`. correctness: what `[correctness]` says; None without that section."""
    context: PipelineContext | None = None
    pipelines = RepositoryPipelines(tree, texts)

    def pipeline(file: str, text: str) -> FileReading | None:
        nonlocal context
        from ci_doctor.lint.pipelines.check import check_pipeline, is_pipeline

        if not is_pipeline(file, text):
            return None
        if context is None:
            context = _context(tree, texts, pipelines, correctness)
        reading = check_pipeline(file, text, context)
        return FileReading(
            violations=reading.violations, unreadable=reading.unreadable, scripts=reading.scripts
        )

    def python(file: str, text: str) -> FileReading | None:
        from ci_doctor.lint.python.check import check_python, is_gate

        if not is_gate(file) and not pipelines.start(file):
            return None
        reading = check_python(file, text)
        return FileReading(violations=reading.violations, unreadable=reading.unreadable)

    return Readers(shell=_shell, pipeline=pipeline, python=python, consistency=_consistency)


def _shell(source: ShellSource, read: ReadText) -> FileReading:
    from ci_doctor.lint.shell.check import check_shell

    reading = check_shell(source, read)
    return FileReading(violations=reading.violations, unreadable=reading.unreadable)


def _consistency(files: Mapping[str, str], whole: bool) -> tuple[Violation, ...]:
    from ci_doctor.lint.consistency.check import check_consistency

    return check_consistency(files, whole=whole)


def _context(
    tree: LintTree,
    texts: RepositoryTexts,
    pipelines: "RepositoryPipelines",
    correctness: "CorrectnessTimes | None",
) -> "PipelineContext":
    from ci_doctor.lint.pipelines.pipeline_context import PipelineContext

    def has_match(pattern: str) -> bool | None:
        # Without a repository nobody knows all of its files.
        if tree.listed is None:
            return None
        return any(matches(pattern, name) for name in tree.listed())

    return PipelineContext(
        correctness=correctness,
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
        from ci_doctor.lint.pipelines.check import is_pipeline

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

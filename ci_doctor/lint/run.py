# SPDX-License-Identifier: Apache-2.0
"""Reads a tree: collects its files, has each judged by the rules of its kind, and selects what is to be reported."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_doctor.lint.collect import changed_since, collect, lint_scope
from ci_doctor.lint.lint_rule import Unreadable, Violation
from ci_doctor.lint.lint_run import JudgedFile, LintRequest, LintRun, Readers, ReadText
from ci_doctor.lint.selection import (
    Directives,
    SelectionRequest,
    directives,
    is_left_out,
    judged_families,
    select,
    violation_of,
)
from ci_doctor.lint.source_files import (
    WHOLE,
    CiRole,
    FileReading,
    LintScope,
    LintTree,
    RepositoryTexts,
    ShellSource,
    SourceKind,
    SourcePath,
    SourceText,
    kind_by_name,
    shell_of,
    started_programs,
)
from ci_doctor.model.outcome import Severity

if TYPE_CHECKING:
    from ci_doctor.lint.pipelines.pipeline_file import PipelineContext


# Reads files by the readers of their kinds, each loaded when the first file of its kind comes.


def readers_of(tree: LintTree, texts: RepositoryTexts) -> Readers:
    """The readers for `tree`."""
    context: PipelineContext | None = None
    pipelines = RepositoryPipelines(tree, texts)

    def pipeline(file: str, text: str) -> FileReading | None:
        nonlocal context
        from ci_doctor.lint.pipelines.check import check_pipeline
        from ci_doctor.lint.pipelines.pipeline_file import PipelineContext, is_pipeline

        if not is_pipeline(file, text):
            return None
        if context is None:
            context = PipelineContext(read=texts.read, others=pipelines)
        return check_pipeline(file, text, context)

    def python(file: str, text: str) -> FileReading | None:
        from ci_doctor.lint.gates import check_python, is_gate

        if not is_gate(file) and not pipelines.start(file):
            return None
        return check_python(file, text)

    def shell(source: ShellSource, read: ReadText) -> FileReading:
        from ci_doctor.lint.shell.check import check_shell

        return check_shell(source, read)

    def consistency(files: Mapping[str, str], whole: bool) -> tuple[Violation, ...]:
        from ci_doctor.lint.variable_rules import check_consistency

        return check_consistency(files, whole=whole)

    return Readers(
        shell=shell,
        pipeline=pipeline,
        python=python,
        consistency=consistency,
        unparsable=_unparsable,
    )


def _unparsable(file: str, text: str, kind: SourceKind) -> tuple[Unreadable, ...]:
    """Why `text` cannot be parsed; nothing for one that can, or that is no file of data or Python."""
    if kind is SourceKind.YAML:
        from ci_doctor.lint.pipelines.check import unparsable_data

        return unparsable_data(file, text)
    if kind is SourceKind.PYTHON:
        from ci_doctor.lint.gates import check_python

        return check_python(file, text).unreadable
    if kind is SourceKind.TOML:
        try:
            tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            return (Unreadable(file=file, line=1, reason=f"it is no TOML: {error}"),)
    return ()


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
    def _started(self) -> set[tuple[str, ...]]:
        return {words for text in self._by_file.values() for words in started_programs(text)}

    def start(self, file: str) -> bool:
        """Whether a command of a pipeline may start the Python program `file`."""
        parts = PurePosixPath(file).parts
        return any(parts[-len(words) :] == words for words in self._started)

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


# Reads a tree: collects its files, has them judged, and selects what is to be reported.


def run(request: LintRequest, tell: Callable[[str], None]) -> LintRun:
    """Lint what `request` names. `tell` gets each step before it begins.

    Raises UsageError for a path or a commit that does not exist, InfraError if git fails.
    """
    scope = lint_scope(request.names, request.cwd)
    changes = None if request.since is None else changed_since(scope.root, request.since)
    changed = None if changes is None else changes.lines.keys()
    tree = collect(scope, changed)
    texts = RepositoryTexts(scope.root)
    readable = [each for each in tree.files if not is_left_out(each.file, request.settings)]
    chosen = _chosen(readable, changed, texts, tell)
    whole = None
    # A hook that names single files is to be quick; and what they lack, another file may have.
    if chosen and scope.is_repository and any((scope.root / path).is_dir() for path in scope.paths):
        whole = _whole(scope, tree, changed)
    readers = request.readers(tree, texts)
    files, unreadable = _judged(chosen, readers, texts, tell, named=scope.paths)
    tell("comparing files")
    compared = texts.all_texts(files if whole is None else whole)
    across = readers.consistency(compared, whole is not None) if files else ()
    violations = [one for each in files.values() for one in each.reading.violations]
    unread = {each.file for each in unreadable}
    selection = select(
        [*violations, *across, *_unreadable_lines(unreadable, files)],
        _directives(files, across, texts),
        {
            file: judged_families(
                judged.reading.role, is_readable=file not in unread, is_whole=whole is not None
            )
            for file, judged in files.items()
        },
        SelectionRequest(
            rule_ids=request.rule_ids,
            settings=request.settings,
            paths=scope.paths,
            changes=changes,
            baseline=request.baseline,
        ),
    )
    return LintRun(
        scope=scope,
        tree=tree,
        left_out=len(tree.files) - len(readable),
        changes=changes,
        files=files,
        unreadable=unreadable,
        is_whole=whole is not None,
        selection=selection,
    )


def _chosen(
    readable: list[SourcePath],
    changed: Collection[str] | None,
    texts: RepositoryTexts,
    tell: Callable[[str], None],
) -> list[SourcePath]:
    """The files that rules look at: all, or those that a change can have made worse."""
    if changed is None:
        return readable
    first = [each for each in readable if each.file in changed]
    others = [each for each in readable if each.file not in changed]
    return [*first, *texts.users_of(first, others, tell)]


def _whole(scope: LintScope, tree: LintTree, changed: Collection[str] | None) -> list[str]:
    """All files of the repository: what one states, another outside of the paths may contradict."""
    if scope.paths != (WHOLE,):
        whole = LintScope(root=scope.root, paths=(WHOLE,), is_repository=scope.is_repository)
        tree = collect(whole, changed)
    return [*(each.file for each in tree.files), *tree.evidence]


def _judged(
    files: Iterable[SourcePath],
    readers: Readers,
    texts: RepositoryTexts,
    tell: Callable[[str], None],
    *,
    named: Collection[str],
) -> tuple[dict[str, JudgedFile], tuple[Unreadable, ...]]:
    """Each of `files` by the rules of its kind alone, and what nobody could read of them.

    Of the files `named` by a person also those must parse that decide nothing in a job.
    """
    judged = {}
    unreadable: list[Unreadable] = []
    for each in files:
        tell(f"reading {each.file}")
        source = texts.source(each.file)
        if isinstance(source, Unreadable):
            unreadable.append(source)
            continue
        reading = examine(each.file, source.text, each.kind, readers, texts.read)
        if reading.role is CiRole.OTHER and each.file in named:
            problems = readers.unparsable(each.file, source.text, each.kind)
            reading = replace(reading, unreadable=problems)
        judged[each.file] = JudgedFile(source=source, kind=each.kind, reading=reading)
        unreadable += reading.unreadable
    return judged, tuple(dict.fromkeys(unreadable))


def _unreadable_lines(
    unreadable: Iterable[Unreadable], files: Mapping[str, JudgedFile]
) -> Iterator[Violation]:
    lines: dict[str, list[str]] = {}
    for each in unreadable:
        if each.is_reported:
            continue
        judged = files.get(each.file)
        if each.file not in lines:
            lines[each.file] = [] if judged is None else judged.source.text.split("\n")
        present = lines[each.file]
        line = present[each.line - 1] if 0 < each.line <= len(present) else ""
        yield violation_of(each, line)


def _directives(
    files: Mapping[str, JudgedFile], across: Iterable[Violation], texts: RepositoryTexts
) -> Directives:
    """Those of the files that were judged, and of others in which there is a violation."""
    by_file = {}
    for file, judged in files.items():
        by_file[file] = directives(judged.source.text, judged.kind)
    for violation in across:
        file = violation.place.file
        kind = kind_by_name(file)
        source = texts.source(file)
        if file not in by_file and kind is not None and not isinstance(source, Unreadable):
            by_file[file] = directives(source.text, kind)
    return by_file

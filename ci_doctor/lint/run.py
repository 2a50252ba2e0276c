# SPDX-License-Identifier: Apache-2.0
"""Reads a tree: collects its files, has them judged, and selects what is to be reported."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ci_doctor.lint.collect import changed_since, collect, lint_scope
from ci_doctor.lint.lint_rule import Unreadable, Violation
from ci_doctor.lint.lint_run import JudgedFile, LintRequest, LintRun, Readers
from ci_doctor.lint.reading import examine
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
    LintScope,
    LintTree,
    RepositoryTexts,
    SourcePath,
    kind_by_name,
)


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
    files, unreadable = _judged(chosen, readers, texts, tell)
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
) -> tuple[dict[str, JudgedFile], tuple[Unreadable, ...]]:
    """Each of `files` by the rules of its kind alone, and what nobody could read of them."""
    judged = {}
    unreadable: list[Unreadable] = []
    for each in files:
        tell(f"reading {each.file}")
        source = texts.source(each.file)
        if isinstance(source, Unreadable):
            unreadable.append(source)
            continue
        reading = examine(each.file, source.text, each.kind, readers, texts.read)
        judged[each.file] = JudgedFile(source=source, kind=each.kind, reading=reading)
        unreadable += reading.unreadable
    return judged, tuple(dict.fromkeys(unreadable))


def _unreadable_lines(
    unreadable: Iterable[Unreadable], files: Mapping[str, JudgedFile]
) -> Iterator[Violation]:
    lines: dict[str, list[str]] = {}
    for each in unreadable:
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

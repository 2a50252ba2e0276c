# SPDX-License-Identifier: Apache-2.0
"""Reads a tree: collects its files, has them judged, and selects what is to be reported."""

from collections.abc import Callable, Collection, Iterable, Mapping

from ci_doctor.lint.changed_lines import ChangedLines
from ci_doctor.lint.changes import changed_since
from ci_doctor.lint.collect import collect
from ci_doctor.lint.configured import is_left_out
from ci_doctor.lint.directive import directives
from ci_doctor.lint.judging import judge
from ci_doctor.lint.lint_run import Judgement, LintRequest, LintRun
from ci_doctor.lint.repository_texts import RepositoryTexts
from ci_doctor.lint.scope import lint_scope
from ci_doctor.lint.selection import (
    Selection,
    SelectionRequest,
    judged_families,
    select,
    violation_of,
)
from ci_doctor.lint.source_kind import kind_by_name
from ci_doctor.lint.source_tree import WHOLE, LintScope, LintTree, SourcePath
from ci_doctor.lint.suppression import Directives
from ci_doctor.lint.unreadable import Unreadable
from ci_doctor.lint.violation import Violation


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
    if chosen and scope.is_repository and _names_directory(scope):
        whole = _whole(scope, tree, changed)
    judgement = judge(chosen, whole, request.readers(tree, texts), texts, tell)
    selection = _selection(request, scope, changes, judgement, texts)
    return LintRun(
        scope=scope,
        tree=tree,
        left_out=len(tree.files) - len(readable),
        changes=changes,
        judgement=judgement,
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


def _names_directory(scope: LintScope) -> bool:
    return any((scope.root / path).is_dir() for path in scope.paths)


def _whole(scope: LintScope, tree: LintTree, changed: Collection[str] | None) -> list[str]:
    """All files of the repository: what one states, another outside of the paths may contradict."""
    if scope.paths != (WHOLE,):
        whole = LintScope(root=scope.root, paths=(WHOLE,), is_repository=scope.is_repository)
        tree = collect(whole, changed)
    return [*(each.file for each in tree.files), *tree.evidence]


def _selection(
    request: LintRequest,
    scope: LintScope,
    changes: ChangedLines | None,
    judgement: Judgement,
    texts: RepositoryTexts,
) -> Selection:
    violations = [*judgement.violations, *_unreadable_lines(judgement)]
    wanted = SelectionRequest(
        rule_ids=request.rule_ids,
        settings=request.settings,
        paths=scope.paths,
        changes=changes,
        baseline=request.baseline,
    )
    return select(violations, _directives(judgement, texts), _families(judgement), wanted)


def _unreadable_lines(judgement: Judgement) -> Iterable[Violation]:
    lines: dict[str, list[str]] = {}
    for each in judgement.unreadable:
        judged = judgement.files.get(each.file)
        if each.file not in lines:
            lines[each.file] = [] if judged is None else judged.source.text.split("\n")
        present = lines[each.file]
        line = present[each.line - 1] if 0 < each.line <= len(present) else ""
        yield violation_of(each, line)


def _directives(judgement: Judgement, texts: RepositoryTexts) -> Directives:
    """Those of the files that were judged, and of others in which there is a violation."""
    by_file = {}
    for file, judged in judgement.files.items():
        by_file[file] = directives(judged.source.text, judged.kind)
    for violation in judgement.across:
        file = violation.place.file
        kind = kind_by_name(file)
        source = texts.source(file)
        if file not in by_file and kind is not None and not isinstance(source, Unreadable):
            by_file[file] = directives(source.text, kind)
    return by_file


def _families(judgement: Judgement) -> Mapping[str, tuple[str, ...]]:
    unreadable = {each.file for each in judgement.unreadable}
    families = {}
    for file, judged in judgement.files.items():
        families[file] = judged_families(
            judged.examination.role, is_readable=file not in unreadable, is_whole=judgement.is_whole
        )
    return families

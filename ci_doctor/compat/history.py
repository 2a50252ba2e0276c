# SPDX-License-Identifier: Apache-2.0
"""Reads git for the commit that changed a signature, and for the signature before it."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from ci_doctor.compat.findings import Change
from ci_doctor.compat.judging.breakage import Breakage, BreakKind
from ci_doctor.compat.judging.named_definition import named_definition
from ci_doctor.compat.sources.code_tree import CodeTree, GitPlace
from ci_doctor.git import ask_git
from ci_doctor.model.facts.compat import DefinitionFact

# A git process and a parse for each: together a second or two.
_MOST_COMMITS: Final = 60
_MOST_BREAKS: Final = 20


def changes(breaks: Sequence[Breakage], callees: Sequence[CodeTree]) -> list[Change]:
    """What changed the callee's definition of each break; an empty Change if no history is at hand."""
    per_break = []
    for position, broken in enumerate(breaks):
        change = _change(broken, callees) if position < _MOST_BREAKS else None
        per_break.append(change or Change())
    return per_break


def _change(broken: Breakage, callees: Sequence[CodeTree]) -> Change | None:
    definition, signature = broken.definition, broken.signature
    if broken.kind is not BreakKind.CALL or definition is None or signature is None:
        return None
    for tree in callees:
        if tree.place is not None and definition.file in tree.names:
            return _commit(tree.place, definition.file, signature.qualified)
    return None


def _commit(place: GitPlace, file: str, qualified: str) -> Change | None:
    """The newest commit before which the definition took other parameters."""
    for path in _paths(place, file):
        listed = ask_git(
            place.repository,
            "log",
            f"-{_MOST_COMMITS}",
            "--format=%H%x09%cs%x09%s",
            place.revision,
            "--",
            path,
        )
        if listed:
            return _among(place, path, qualified, listed.splitlines())
    return None


def _paths(place: GitPlace, file: str) -> list[str]:
    """The file's path in the repository: the tree is `below`, or the package that `below` names."""
    below = PurePosixPath(place.below)
    return [str(below / file), str(below.parent / file)]


def _among(place: GitPlace, path: str, qualified: str, lines: Sequence[str]) -> Change | None:
    now = _definition(place, f"{place.revision}:{path}", qualified)
    if now is None:
        return None
    for line in lines:
        commit, date, subject = line.split("\t", 2)
        before = _definition(place, f"{commit}^:{path}", qualified)
        if before is None:
            return None  # the file or the function is younger: it moved, or it is new
        if before[1] != now[1]:
            fact = DefinitionFact(file=path, line=before[0], text=f"{qualified}({before[1]})")
            return Change(before=fact, changed_by=f"{commit[:12]} ({date}) {subject}")
    return None


def _definition(place: GitPlace, spec: str, qualified: str) -> tuple[int, str] | None:
    """Line and parameters of a function in a version of a file; None if it is not there."""
    source = ask_git(place.repository, "show", spec)
    if source is None:
        return None
    return named_definition(source, qualified)

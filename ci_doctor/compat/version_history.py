# SPDX-License-Identifier: Apache-2.0
"""Reads the versions beside one another in a matrix: which of them brought a break, and what was before."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from ci_doctor.compat import rules
from ci_doctor.compat.judging.named_definition import named_definition
from ci_doctor.compat.matrix_outcome import Operand
from ci_doctor.compat.sources.code_tree import CodeTree
from ci_doctor.model.facts.compat import BreakFact, DefinitionFact, DirectionFact, PairFact


def with_versions(pairs: Sequence[PairFact], operands: Sequence[Operand]) -> tuple[PairFact, ...]:
    """The same pairs; a break that an older version of the callee did not have names the version that brought it."""
    history = _VersionHistory(pairs, operands)
    return tuple(
        msgspec.structs.replace(pair, directions=tuple(map(history.dated, pair.directions)))
        for pair in pairs
    )


class _VersionHistory:
    """The versions of each package, oldest first, and what was judged of each pair."""

    def __init__(self, pairs: Sequence[PairFact], operands: Sequence[Operand]) -> None:
        self._directions = {
            (each.caller, each.callee): each for pair in pairs for each in pair.directions
        }
        self._versions = {tree.label: each.trees for each in operands for tree in each.trees}

    def dated(self, direction: DirectionFact) -> DirectionFact:
        """The same direction, with what is known of the callee's older versions."""
        older = self._older(direction.callee)
        breaks = tuple(self._dated(direction, each, older) for each in direction.breaks)
        return msgspec.structs.replace(direction, breaks=breaks)

    def _older(self, label: str) -> list[CodeTree]:
        """The versions before this one, newest first."""
        trees = self._versions[label]
        position = next(at for at, tree in enumerate(trees) if tree.label == label)
        return list(reversed(trees[:position]))

    def _dated(
        self, direction: DirectionFact, broken: BreakFact, older: Sequence[CodeTree]
    ) -> BreakFact:
        first = direction.callee
        for tree in older:
            judged = self._directions.get((direction.caller, tree.label))
            if judged is None or not judged.resolved:
                return broken  # nobody knows how it was
            if not any(_is_same(each, broken) for each in judged.breaks):
                return msgspec.structs.replace(
                    broken,
                    before=_definition(tree, broken),
                    changed_by=f"{first}; {tree.label} does not break here",
                )
            first = tree.label
        return broken


def _is_same(one: BreakFact, other: BreakFact) -> bool:
    """Whether the same line breaks for the same name: its definition may have moved in between."""
    return (one.rule, one.file, one.line, one.symbol) == (
        other.rule,
        other.file,
        other.line,
        other.symbol,
    )


def _definition(tree: CodeTree, broken: BreakFact) -> DefinitionFact | None:
    """The definition of a call in another version, if it stands in the same file there."""
    now = broken.now
    if broken.rule != rules.CALL.id or now is None or now.file not in tree.names:
        return None
    name = _below_module(now.file, broken.symbol)
    try:
        definition = named_definition(tree.read(now.file), name)
    except OSError:
        return None
    if definition is None:
        return None
    return DefinitionFact(file=now.file, line=definition[0], text=f"{name}({definition[1]})")


def _below_module(file: str, symbol: str) -> str:
    """`A.run` of `lib.api.A.run`, which stands in `src/lib/api.py`."""
    path = PurePosixPath(file).with_suffix("").parts
    module = path[:-1] if path[-1] == "__init__" else path
    words = symbol.split(".")
    for start in range(len(module)):
        part = list(module[start:])
        if words[: len(part)] == part:
            return ".".join(words[len(part) :])
    return symbol

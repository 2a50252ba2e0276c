# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and on the user's cache: which published versions of two packages work together."""

import gc
import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import msgspec

from ci_doctor.compat.findings import Change, break_fact
from ci_doctor.compat.index.package_index import PackageIndex
from ci_doctor.compat.index.version_choice import version_choice
from ci_doctor.compat.judging.judge import judge
from ci_doctor.compat.matrix_outcome import Operand
from ci_doctor.compat.sources.code_tree import CodeTree
from ci_doctor.compat.sources.opening import open_source
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.compat import DirectionFact, PairFact
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.version import tool_version

_MOST_PAIRS: Final = 400
Tell = Callable[[str], None]


class MatrixRun:
    """Judges pairs of versions, in both directions; each result is kept in the cache."""

    def __init__(
        self, index: PackageIndex, cache: Path, python: tuple[int, int], tell: Tell
    ) -> None:
        self._index = index
        self._cache = cache
        self._python = python
        self._tell = tell

    def operand(self, text: str) -> Operand:
        """The versions that a specification means, or the one local source.

        Raises UsageError if there is none, InfraError if the index does not answer.
        """
        if Path(text).exists() or "@" in text:
            return Operand(text=text, trees=(open_source(text),))
        choice = version_choice(text)
        self._tell(f"looking for {text}")
        chosen = choice.chosen(self._index.versions(choice.name))
        if not chosen:
            raise UsageError(
                f"no version of {choice.name} is {text}",
                hint=f"see `pip index versions {choice.name}`",
            )
        trees = []
        for release in chosen:
            self._tell(f"reading {release.label}")
            trees.append(self._index.tree(release))
        return Operand(text=text, trees=tuple(trees))

    def pairs(self, operands: Sequence[Operand]) -> Iterator[PairFact]:
        """The first operand with each of the others, version by version."""
        first, *others = operands
        count = len(first.trees) * sum(len(each.trees) for each in others)
        if count > _MOST_PAIRS:
            raise UsageError(
                f"{count} pairs are more than {_MOST_PAIRS}", hint="name fewer versions"
            )
        for other in others:
            for one, two in product(first.trees, other.trees):
                self._tell(f"{one.label} and {two.label}")
                yield PairFact(
                    first=one.label,
                    second=two.label,
                    directions=(self._direction(one, two), self._direction(two, one)),
                )

    def _direction(self, caller: CodeTree, callee: CodeTree) -> DirectionFact:
        kept = self._kept(caller, callee)
        if kept is not None and kept.is_file():
            try:
                return msgspec.json.decode(kept.read_bytes(), type=DirectionFact)
            except msgspec.DecodeError:
                pass  # it is written again
        judged = self._judge(caller, callee)
        if kept is not None:
            write_atomically(kept, msgspec.json.encode(judged))
        return judged

    def _judge(self, caller: CodeTree, callee: CodeTree) -> DirectionFact:
        judged = judge(caller, [callee], python=self._python)
        gc.collect()  # the scopes of a pair are circles of hundreds of megabytes
        errors = [break_fact(each, Change()) for each in judged.breaks if each.is_error]
        return DirectionFact(
            caller=caller.label,
            callee=callee.label,
            resolved=judged.resolved,
            open_imports=len(judged.open_imports),
            unread=len(judged.unread),
            breaks=tuple(errors),
        )

    def _kept(self, caller: CodeTree, callee: CodeTree) -> Path | None:
        """The file of a result; None if a source may change under the same name."""
        if caller.digest is None or callee.digest is None:
            return None
        parts = (caller.digest, callee.digest, str(self._python), tool_version())
        key = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._cache / "pairs" / f"{key}.json"

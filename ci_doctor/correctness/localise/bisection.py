# SPDX-License-Identifier: Apache-2.0
"""The first bad commit of a range as a search under noise: commits, their ancestors, reverts. Pure.

A hypothesis is a commit that brought the fault. By it each commit that has this one among its ancestors
has the fault, except where a revert of it is an ancestor too, and has not been reverted itself.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ci_doctor.correctness.localise.noise import (
    Array,
    Flags,
    Places,
    Posterior,
    SearchAnswer,
    SearchSpace,
)

# The baseline's end. The commits of the range are numbered from 0, each after its parents.
GOOD = -1
# Commits that cannot be built stand side by side, mostly: by this factor with each step away.
_BROKEN_NEAR = 0.9
_NEGLIGIBLE = 1e-9


class CommitNode(Struct, frozen=True, kw_only=True):
    """A commit of the range: its `parents` in the range by number, and the commit that it says to revert."""

    id: str
    parents: tuple[int, ...] = ()
    reverts: int | None = None
    subject: str = ""


def _ancestors(commits: Sequence[CommitNode]) -> Flags:
    """A row for each commit: which commits are among its ancestors, itself too."""
    rows = np.zeros((len(commits), len(commits)), dtype=np.bool_)
    for number, commit in enumerate(commits):
        rows[number, number] = True
        for parent in commit.parents:
            rows[number] |= rows[parent]
    return rows


def _faults(commits: Sequence[CommitNode]) -> Flags:
    """A row for each commit, a column for each hypothesis: whether it has the fault."""
    has = _ancestors(commits)
    faults = has.copy()
    reverts: dict[int, list[int]] = {}
    for number, commit in enumerate(commits):
        if commit.reverts is not None:
            reverts.setdefault(commit.reverts, []).append(number)

    def undone(change: int) -> Flags:
        """Where a revert of this change is in effect. A revert comes after what it reverts."""
        made = np.zeros(len(commits), dtype=np.bool_)
        for revert in reverts.get(change, ()):
            made |= has[:, revert] & ~undone(revert)
        return made

    for change in reverts:
        faults[:, change] &= ~undone(change)
    return faults


class CommitSpace(SearchSpace):
    """The commits of a range, the last of which is bad."""

    def __init__(self, commits: Sequence[CommitNode]) -> None:
        super().__init__()
        self.commits = tuple(commits)
        self.good, self.bad = GOOD, len(commits) - 1
        self._faults = _faults(commits)
        # Of one that is reverted before the bad end, something else must be left.
        self.prior = np.where(self._faults[self.bad], 1.0, 0.02)
        self._grouped: tuple[set[int], Mapping[bytes, list[int]]] = (set(), {})

    def faulty(self, point: int) -> Flags:
        """By which commits the fault is at this one."""
        if point == GOOD:
            return np.zeros(len(self.commits), dtype=np.bool_)
        if point == self.bad:
            return np.ones(len(self.commits), dtype=np.bool_)
        row: Flags = self._faults[point]
        return row

    def points(self, posterior: Posterior) -> tuple[Sequence[int], Places, Flags]:
        """Each commit that can be built."""
        points = [each for each in range(len(self.commits)) if each not in self.broken]
        likely = np.flatnonzero(posterior.weights >= _NEGLIGIBLE)
        faulty = self._faults[points][:, likely]
        # The bad end has the fault by each of them.
        faulty[points.index(self.bad)] = True
        return points, likely, faulty

    def appeal(self, points: Sequence[int]) -> Array:
        """Less near a commit that was not built, up to the next one that was."""
        numbers = np.array(points)
        appeal = np.ones(len(points))
        built = sorted(self.built)
        for broken in self.broken:
            before = max((each for each in built if each < broken), default=-1)
            after = min((each for each in built if each > broken), default=len(self.commits))
            is_near = (numbers > before) & (numbers < after)
            factor = 1 - _BROKEN_NEAR ** np.abs(numbers - broken)
            appeal = np.where(is_near, np.minimum(appeal, factor), appeal)
        return appeal

    def answers(self, posterior: Posterior) -> list[SearchAnswer]:
        """Commits, each with its probability. Those that no commit that was built tells apart are one answer."""
        weights = posterior.weights
        likely = np.argsort(-weights)[:8]
        groups = self._groups() if self.broken else {}
        group_of = {each: tuple(group) for group in groups.values() for each in group}
        made: dict[tuple[int, ...], SearchAnswer] = {}
        for each in map(int, likely):
            names = group_of.get(each, (each,))
            if names not in made:
                made[names] = SearchAnswer(
                    names=names,
                    probability=posterior.probability(names),
                    weight=float(weights[list(names)].sum()),
                    proof=self._proof(names),
                )
        return sorted(made.values(), key=lambda answer: -answer.weight)

    def _proof(self, names: Sequence[int]) -> tuple[int, ...]:
        """The newest commit of an answer, and what stands right before its oldest ones."""
        before = {parent for each in names for parent in self.commits[each].parents or (GOOD,)}
        return (max(names), *sorted(before - set(names)))

    def _groups(self) -> Mapping[bytes, list[int]]:
        if self._grouped[0] != self.broken:
            usable = [each for each in range(len(self.commits)) if each not in self.broken]
            columns = np.packbits(self._faults[usable], axis=0).T
            groups: dict[bytes, list[int]] = {}
            for number, column in enumerate(columns):
                groups.setdefault(column.tobytes(), []).append(number)
            self._grouped = set(self.broken), groups
        return self._grouped[1]

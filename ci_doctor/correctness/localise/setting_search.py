# SPDX-License-Identifier: Apache-2.0
"""Which settings of a candidate matter, as a search over their subsets under noise. Pure.

A hypothesis is a set of settings that are needed together: a start has the fault if it has all of them.
Or it is two settings, each of which is enough. Small sets come first. This is group testing with unknown
error rates; delta debugging (Zeller & Hildebrandt, 2002) asks the same, of tests that never lie.
"""

import functools
import itertools
import math
import operator
from collections.abc import Sequence

import numpy as np

from ci_doctor.correctness.localise.noise import (
    Array,
    Flags,
    Places,
    Posterior,
    SearchAnswer,
    SearchSpace,
)

# So many hypotheses are compared at most, those of small sets first.
_MOST = 12_000
# What a set of one more setting is worth, of one of fewer.
_ONE_MORE = 0.2
# Two settings that are enough alone.
_EITHER = 0.05
_DRAWN = 100
_LIKELY = 300
_NAMED = 6


def _largest(weights: Array) -> Places:
    """The likeliest hypotheses, the likeliest first."""
    most = min(_LIKELY, len(weights) - 1)
    some = np.argpartition(-weights, most)[: most + 1]
    return some[np.argsort(-weights[some])]


def largest_set(settings: int) -> int:
    """How many settings may be needed together at most, in a search among so many."""
    total, size = 0, 0
    while size < settings and total + math.comb(settings, size + 1) <= _MOST:
        size += 1
        total += math.comb(settings, size)
    return max(1, size)


class SettingSpace(SearchSpace):
    """The subsets of `count` settings as bits of a number: 0 is the baseline, all bits are the candidate.

    Those in `building` decide what is built; a subset without the others' effect on that is built alike.
    """

    def __init__(self, count: int, building: Sequence[int] = ()) -> None:
        super().__init__()
        self.count = count
        self.good, self.bad = 0, (1 << count) - 1
        self._building = sum(1 << each for each in building)
        self._random = np.random.default_rng(count)
        needed: list[tuple[int, ...]] = []
        prior: list[float] = []
        for size in range(1, largest_set(count) + 1):
            share = _ONE_MORE ** (size - 1) / math.comb(count, size)
            for each in itertools.combinations(range(count), size):
                needed.append(each)
                prior.append(share)
        self._sets = needed
        pairs = list(itertools.combinations(range(count), 2))
        # A second set, for the hypotheses of two that are enough; no start has all of nothing else.
        self._other = [needed.index((other,)) for _, other in pairs]
        self._one = [needed.index((one,)) for one, _ in pairs]
        self.prior = np.array([*prior, *([_EITHER / max(1, len(pairs))] * len(pairs))])
        self._members = np.zeros((len(needed), count), dtype=np.float32)
        for row, each in enumerate(needed):
            self._members[row, list(each)] = 1

    def build_of(self, point: int) -> int:
        """The subset that decides what is built for this one."""
        return point & self._building

    def faulty(self, point: int) -> Flags:
        """By which hypotheses a start with these settings has the fault."""
        missing = np.array([not point >> bit & 1 for bit in range(self.count)], dtype=np.float32)
        has = self._members @ missing == 0
        return np.concatenate((has, has[self._one] | has[self._other]))

    def points(self, posterior: Posterior) -> tuple[Sequence[int], Places, Flags]:
        """Subsets that divide the likely hypotheses."""
        likely = _largest(posterior.weights)
        broken = {self.build_of(each) for each in self.broken}
        candidates = self._candidates([self._bits(int(each)) for each in likely])
        usable = sorted(each for each in candidates if self.build_of(each) not in broken)
        return usable, likely, self._faulty_at(usable, likely)

    def _candidates(self, sets: Sequence[int]) -> set[int]:
        """All settings, all but one, the likeliest sets with and without all others, and subsets drawn at random."""
        points = {self.bad, *sets[:_NAMED]}
        points |= {self.bad & ~(1 << bit) for bit in range(self.count)}
        points |= {self.bad & ~each for each in sets[:_NAMED]}
        for drawn in range(_DRAWN):
            share = (0.35, 0.5, 0.7, 0.85)[drawn % 4]
            drawn_bits = np.flatnonzero(self._random.random(self.count) < share)
            points.add(sum(1 << int(bit) for bit in drawn_bits))
            chosen = self._random.random(len(sets[:24])) < 1 / 2
            points.add(functools.reduce(operator.or_, itertools.compress(sets, chosen), 0))
        return points

    def _faulty_at(self, points: Sequence[int], likely: Places) -> Flags:
        """A row for each point, a column for each of the likely hypotheses."""
        faulty = np.zeros((len(points), len(likely)), dtype=np.bool_)
        if not points:
            return faulty
        bits = range(self.count)
        states = np.array([[bool(each >> bit & 1) for bit in bits] for each in points])
        simple = likely < len(self._sets)
        faulty[:, simple] = (~states).astype(np.float32) @ self._members[likely[simple]].T == 0
        if not simple.all():
            one, other = np.array([self._pair(int(each)) for each in likely[~simple]]).T
            faulty[:, ~simple] = states[:, one] | states[:, other]
        return faulty

    def _pair(self, hypothesis: int) -> tuple[int, int]:
        at = hypothesis - len(self._sets)
        return self._sets[self._one[at]][0], self._sets[self._other[at]][0]

    def _bits(self, hypothesis: int) -> int:
        names = self._sets[hypothesis] if hypothesis < len(self._sets) else self._pair(hypothesis)
        return sum(1 << each for each in names)

    def answers(self, posterior: Posterior) -> list[SearchAnswer]:
        """Smallest sets that have the fault, each with its probability."""
        weights = posterior.weights
        by_names: dict[tuple[int, ...], list[int]] = {}
        for each in map(int, _largest(weights)):
            is_one = each < len(self._sets)
            for names in [self._sets[each]] if is_one else [(bit,) for bit in self._pair(each)]:
                by_names.setdefault(names, []).append(each)
        shares = {names: float(weights[places].sum()) for names, places in by_names.items()}
        ranked = sorted(shares, key=lambda names: -shares[names])[:_NAMED]
        return [
            SearchAnswer(
                names=names,
                probability=posterior.least(by_names[names]),
                weight=shares[names],
                proof=self._proof(names),
            )
            for names in ranked
        ]

    def _proof(self, names: Sequence[int]) -> tuple[int, ...]:
        """The set alone, and without each of its settings, the last one first."""
        whole = sum(1 << each for each in names)
        return (whole, *(whole & ~(1 << each) for each in reversed(names)))

# SPDX-License-Identifier: Apache-2.0
"""Which settings of a candidate matter, as a search over their subsets under noise. Pure.

A hypothesis is a set of settings that are needed together: a start has the fault if it has all of them.
Or it is two settings, each of which is enough. Small sets come first. This is group testing with unknown
error rates; delta debugging (Zeller & Hildebrandt, 2002) asks the same, of tests that never lie.
"""

import itertools
import math
from collections import defaultdict
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
# Subsets are drawn with such shares of the settings, so many with each.
_SHARES, _DRAWN = (0.35, 0.5, 0.7, 0.85), 25
# Of the likeliest hypotheses, so many are told apart, joined at random, and named.
_LIKELY, _JOINED, _NAMED = 300, 24, 6
# So often the best subset is changed by one setting.
_CHANGED = 2


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
        # The settings of each hypothesis, and how many of them a start with the fault has at least.
        sets: list[tuple[int, ...]] = []
        prior: list[float] = []
        for size in range(1, largest_set(count) + 1):
            share = _ONE_MORE ** (size - 1) / math.comb(count, size)
            some = list(itertools.combinations(range(count), size))
            sets += some
            prior += [share] * len(some)
        either = list(itertools.combinations(range(count), 2))
        self.prior = np.array([*prior, *([_EITHER / max(1, len(either))] * len(either))])
        self._sets = [*sets, *either]
        self._least = np.array([*map(len, sets), *([1] * len(either))], dtype=np.float32)
        self._members = np.zeros((len(self._sets), count), dtype=np.float32)
        for row, each in enumerate(self._sets):
            self._members[row, list(each)] = 1

    def build_of(self, point: int) -> int:
        """The subset that decides what is built for this one."""
        return point & self._building

    def faulty(self, point: int) -> Flags:
        """By which hypotheses a start with these settings has the fault."""
        row: Flags = self._members @ self._states([point])[0] >= self._least
        return row

    def points(self, posterior: Posterior) -> tuple[Sequence[int], Places, Flags]:
        """Subsets that divide the likely hypotheses: the most telling of many, and its neighbours."""
        likely = _largest(posterior.weights)
        broken = {self.build_of(each) for each in self.broken}
        usable: list[int] = []
        states = self._candidates(likely)
        faulty = np.zeros((0, len(likely)), dtype=np.bool_)
        for _ in range(1 + _CHANGED):
            more = {each for each in self._numbers(states) if self.build_of(each) not in broken}
            usable += sorted(more.difference(usable))
            rows = self._states(usable[len(faulty) :])
            has = rows @ self._members[likely].T >= self._least[likely]
            faulty = np.concatenate((faulty, has))
            if usable:
                best = usable[int(posterior.information(likely, faulty).argmax())]
                states = np.abs(self._states([best]) - np.eye(self.count, dtype=np.float32))
        return usable, likely, faulty

    def _candidates(self, likely: Places) -> Array:
        """All settings, all but one, the likeliest sets with and without all others, and subsets drawn at random.

        A row for each, a column for each setting.
        """
        named, joined = self._members[likely[:_NAMED]], self._members[likely[:_JOINED]]
        drawn = self._random.random((_DRAWN, len(_SHARES), self.count)) < np.array(_SHARES)[:, None]
        joins = self._random.random((len(_SHARES) * _DRAWN, len(joined))) < 1 / 2
        states: Array = np.concatenate(
            (
                np.ones((1, self.count)),
                1 - np.eye(self.count),
                named,
                1 - named,
                drawn.reshape(-1, self.count),
                joins @ joined > 0,
            )
        )
        return states

    def _numbers(self, states: Array) -> list[int]:
        packed = np.packbits(states > 0, axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in packed]

    def _states(self, points: Sequence[int]) -> Array:
        """A row for each point, a column for each setting: 1 if it has it."""
        size = (self.count + 7) // 8
        packed = np.frombuffer(b"".join(each.to_bytes(size, "little") for each in points), np.uint8)
        bits = np.unpackbits(packed.reshape(-1, size), axis=1, bitorder="little")
        states: Array = bits[:, : self.count].astype(np.float32)
        return states

    def answers(self, posterior: Posterior) -> list[SearchAnswer]:
        """Smallest sets that have the fault, each with its probability."""
        likely = _largest(posterior.weights)
        by_names: dict[tuple[int, ...], list[int]] = {}
        shares: dict[tuple[int, ...], float] = defaultdict(float)
        for each, weight in zip(likely.tolist(), posterior.weights[likely].tolist(), strict=True):
            names = self._sets[each]
            is_whole = self._least[each] == len(names)
            for part in [names] if is_whole else [(one,) for one in names]:
                by_names.setdefault(part, []).append(each)
                shares[part] += weight
        ranked = sorted(shares, key=lambda names: -shares[names])[:_NAMED]
        return [
            SearchAnswer(
                names=names,
                probability=posterior.probability(by_names[names]),
                weight=shares[names],
                proof=self._proof(names),
            )
            for names in ranked
        ]

    def _proof(self, names: Sequence[int]) -> tuple[int, ...]:
        """The set alone, and without each of its settings, the last one first."""
        whole = sum(1 << each for each in names)
        return (whole, *(whole & ~(1 << each) for each in reversed(names)))

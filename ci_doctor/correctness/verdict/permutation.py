# SPDX-License-Identifier: Apache-2.0
"""The exact permutation test over the labels of starts. Pure.

Under the null hypothesis the starts of both arms are exchangeable: which of them bear the candidate's label is chance. So
the p-value is the share of all labelings of the same size that dispute at least as many requests as the one observed
(Fisher 1935, The Design of Experiments, 21; Phipson & Smyth 2010, doi:10.2202/1544-6115.1585). Nothing is assumed of how
requests depend on one another, nor of how many modes the environment has.
"""

import math
import random
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from msgspec import Struct

# A partition of the starts by what they answered: a bit mask for each class, bit i being start i.
Partition = tuple[int, ...]

_MOST_UNIONS = 3_000_000
_DRAWS = 50_000


class PermutationCount(Struct, frozen=True, kw_only=True):
    """`extreme` of `labelings` dispute at least as many requests as the observed one, which is among them.

    `patterns` counts the different partitions that some labeling disputes, and others do not.
    """

    extreme: int
    labelings: int
    patterns: int = 0

    @property
    def p(self) -> float:
        """The p-value."""
        return self.extreme / self.labelings


def partition(outcomes: Sequence[Hashable | None]) -> Partition:
    """The classes of equal outcomes, one outcome a start; a missing one (None) agrees with nothing, itself included."""
    classes: dict[Hashable, int] = {}
    for index, outcome in enumerate(outcomes):
        key = ("missing", index) if outcome is None else outcome
        classes[key] = classes.get(key, 0) | 1 << index
    return tuple(sorted(classes.values()))


def disputes(classes: Partition, candidates: int) -> bool:
    """Whether no start of the mask `candidates` shares its outcome with a start outside it."""
    return all(each & candidates in {0, each} for each in classes)


def permutation_test(
    kinds: Mapping[Partition, int], candidates: int, starts: int
) -> PermutationCount:
    """The test over all labelings of `starts` starts with as many candidates as the mask `candidates` has bits.

    `kinds` holds the partitions of all requests, each with its weight: how many requests have it. Exact; only where that would take more than some seconds (dozens of
    starts that answer in ever other groups) it is estimated from 50,000 random labelings, with the "+1" of Phipson &
    Smyth, by which it stays valid.
    """
    size = candidates.bit_count()
    observed = sum(count for classes, count in kinds.items() if disputes(classes, candidates))
    labelings = math.comb(starts, size)
    # Where all starts differ every labeling disputes, and where all agree none does.
    always = sum(count for classes, count in kinds.items() if len(classes) == starts)
    if always >= observed:
        return PermutationCount(extreme=labelings, labelings=labelings)
    telling = {classes: count for classes, count in kinds.items() if 1 < len(classes) < starts}
    if sum(min(2 ** len(classes), labelings) for classes in telling) > _MOST_UNIONS:
        return _estimate(telling, candidates, starts, observed - always)
    disputed: Counter[int] = Counter()
    patterns = 0
    for classes, count in telling.items():
        before = disputed.total()
        for labeling in _unions(classes, size):
            disputed[labeling] += count
        patterns += disputed.total() > before
    extreme = sum(count >= observed - always for count in disputed.values())
    return PermutationCount(extreme=extreme, labelings=labelings, patterns=patterns)


def _unions(classes: Partition, size: int) -> Iterator[int]:
    """The unions of classes that hold `size` starts: the labelings that dispute a request with this partition."""
    if not classes:
        if size == 0:
            yield 0
        return
    first, rest = classes[0], classes[1:]
    if first.bit_count() <= size:
        for union in _unions(rest, size - first.bit_count()):
            yield first | union
    if sum(each.bit_count() for each in rest) >= size:
        yield from _unions(rest, size)


def _estimate(
    telling: dict[Partition, int], candidates: int, starts: int, observed: int
) -> PermutationCount:
    source = random.Random(0)  # noqa: S311 - the same evidence must give the same verdict
    size = candidates.bit_count()
    extreme = 1
    for _ in range(_DRAWS):
        labeling = sum(1 << index for index in source.sample(range(starts), size))
        extreme += (
            sum(count for classes, count in telling.items() if disputes(classes, labeling))
            >= observed
        )
    return PermutationCount(extreme=extreme, labelings=_DRAWS + 1, patterns=len(telling))

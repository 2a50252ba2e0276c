# SPDX-License-Identifier: Apache-2.0
"""The exact permutation test over the labels of starts. Pure.

If the change has no effect, the starts of both arms are exchangeable and their labels arbitrary.
The p-value is the share of all labelings of the same size that dispute at least as many requests as
the real one (Fisher 1935, The Design of Experiments, 21; Phipson & Smyth 2010,
doi:10.2202/1544-6115.1585). Nothing is assumed of how requests depend on one another, nor of how
many modes the environment has.
"""

import math
import random
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from msgspec import Struct

# A partition of the starts by their answers: a bit mask for each class, bit i being start i.
Partition = tuple[int, ...]

# Enumerating this many takes some seconds.
_MOST_UNIONS = 3_000_000
_DRAWS = 50_000


class PermutationCount(Struct, frozen=True, kw_only=True):
    """`extreme` of `labelings` dispute at least as many requests as the real one, itself included.

    `patterns` counts the different partitions that some labelings dispute and others do not.
    """

    extreme: int
    labelings: int
    patterns: int = 0

    @property
    def p(self) -> float:
        """The p-value."""
        return self.extreme / self.labelings


def partition(outcomes: Sequence[Hashable | None]) -> Partition:
    """The classes of equal outcomes, one a start. None (missing) equals nothing, not even None."""
    classes: dict[Hashable, int] = {}
    for index, outcome in enumerate(outcomes):
        key = outcome
        if outcome is None:
            # A key of its own for each start. Outcomes are strings, so none is equal to it.
            key = ("missing", index)
        mask = classes.get(key, 0)
        classes[key] = mask | 1 << index
    # Sorted: partitions with the same classes are counted as one, in whatever order they appeared.
    return tuple(sorted(classes.values()))


def disputes(classes: Partition, candidates: int) -> bool:
    """Whether no start of the mask `candidates` shares its outcome with a start outside it."""
    return all(each & candidates in {0, each} for each in classes)


def permutation_test(
    kinds: Mapping[Partition, int], candidates: int, starts: int
) -> PermutationCount:
    """The test over all labelings of `starts` starts.

    A labeling has as many candidates as the mask `candidates` has bits. `kinds` holds the
    partitions of all requests, each with its weight: how many requests have it. The result is
    exact, unless that takes more than some seconds (dozens of starts that answer in ever other
    groups). Then it is estimated from 50,000 random labelings, with the "+1" of Phipson & Smyth:
    the estimate remains a valid p-value.
    """
    size = candidates.bit_count()
    labelings = math.comb(starts, size)
    varying = _varying(kinds, starts)
    needed = _disputed(varying, candidates)
    # Every labeling disputes at least nothing.
    if needed == 0:
        return PermutationCount(extreme=labelings, labelings=labelings)
    if _most_unions(varying, labelings) > _MOST_UNIONS:
        return _estimate(varying, size, starts, needed)
    disputed, patterns = _count(varying, size)
    extreme = sum(count >= needed for count in disputed.values())
    return PermutationCount(extreme=extreme, labelings=labelings, patterns=patterns)


def _varying(kinds: Mapping[Partition, int], starts: int) -> dict[Partition, int]:
    """The partitions that some labelings dispute and others may not.

    A request on which all starts differ is disputed by every labeling; one on which all agree, by
    none. Only the others depend on the labels.
    """
    return {classes: count for classes, count in kinds.items() if 1 < len(classes) < starts}


def _most_unions(kinds: Mapping[Partition, int], labelings: int) -> int:
    """An upper bound of the unions that an exact count enumerates."""
    total = 0
    for classes in kinds:
        # Each class is in a union or not, and no two unions are the same labeling.
        total += min(2 ** len(classes), labelings)
    return total


def _disputed(kinds: Mapping[Partition, int], candidates: int) -> int:
    """The weight of all requests that this labeling disputes."""
    total = 0
    for classes, count in kinds.items():
        if disputes(classes, candidates):
            total += count
    return total


def _count(kinds: Mapping[Partition, int], size: int) -> tuple[Counter[int], int]:
    """The disputed weight of each labeling that disputes anything, and the number of patterns."""
    disputed: Counter[int] = Counter()
    patterns = 0
    for classes, count in kinds.items():
        is_disputed = False
        for labeling in _unions(classes, size):
            disputed[labeling] += count
            is_disputed = True
        patterns += is_disputed
    return disputed, patterns


def _unions(classes: Partition, size: int) -> Iterator[int]:
    """The unions of classes with `size` starts: the labelings that dispute such a request."""
    if not classes:
        if size == 0:
            yield 0
        return
    # A class goes to the candidate as a whole, or not at all.
    first = classes[0]
    rest = classes[1:]
    left = size - first.bit_count()
    if left >= 0:
        for union in _unions(rest, left):
            yield first | union
    # Otherwise the rest is too small, and the branch would be walked in vain.
    if sum(map(int.bit_count, rest)) >= size:
        yield from _unions(rest, size)


def _estimate(
    kinds: Mapping[Partition, int], size: int, starts: int, needed: int
) -> PermutationCount:
    source = random.Random(0)
    # The real labeling is one of all: the "+1" of Phipson & Smyth.
    extreme = 1
    for _ in range(_DRAWS):
        labeling = sum(1 << index for index in source.sample(range(starts), size))
        extreme += _disputed(kinds, labeling) >= needed
    return PermutationCount(extreme=extreme, labelings=_DRAWS + 1, patterns=len(kinds))

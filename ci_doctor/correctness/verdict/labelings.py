# SPDX-License-Identifier: Apache-2.0
"""The labels of the starts, and all the labels that the draws within the blocks could have given. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# So many labelings are enumerated; of more, so many are drawn.
_MOST_LABELINGS = 3_000
_DRAWS = 2_000
_ROUNDING = 1e-9


class Labels(Struct, frozen=True, kw_only=True):
    """Which of the starts are the candidate's, and the block of each start."""

    candidate: tuple[bool, ...]
    block: tuple[int, ...]

    @property
    def mask(self) -> int:
        """A bit for each candidate start."""
        return sum(1 << index for index, label in enumerate(self.candidate) if label)


class Labelings(NamedTuple):
    """Labels that the draws could have given: a row each, 1 for a candidate start.

    `are_all`: every one of them, of which there are `total`; otherwise a random sample.
    """

    rows: "NDArray[np.float32]"
    are_all: bool
    total: int


# The starts of a block, and how many of them are the candidate's.
_Place = tuple[tuple[int, ...], int]


def labelings(labels: Labels) -> Labelings:
    """All labels that the draws within the blocks could have given these starts."""
    starts: dict[int, list[int]] = {}
    candidates: Counter[int] = Counter()
    for index, number in enumerate(labels.block):
        starts.setdefault(number, []).append(index)
        candidates[number] += labels.candidate[index]
    places = tuple((tuple(each), candidates[number]) for number, each in starts.items())
    return _labelings_of(places, len(labels.block))


def smallest_p(blocks: Sequence[tuple[int, int]]) -> float:
    """The least p-value that the test can reach over these blocks: starts, and the candidate's.

    If both arms are of one size in every block, the mirror image of a labeling is one as well, and
    separates the arms as much.
    """
    total = math.prod(math.comb(size, candidates) for size, candidates in blocks)
    mirrored = all(size == 2 * candidates for size, candidates in blocks)
    extreme = min(total, 2) if mirrored else 1
    if total > _MOST_LABELINGS:
        return max(extreme / total, 1 / (_DRAWS + 1))
    return extreme / total


def column_p(blocks: Sequence[tuple[int, int]], having: Sequence[int], candidate: int) -> float:
    """How often a labeling gives the candidate so many of the starts with a trait, or more extreme.

    `blocks` as in `smallest_p`; `having` counts the starts with the trait by block, and `candidate`
    those of them that are the candidate's. No p-value of the test with such a trait is lower.
    """
    chances = [1.0]
    for (size, candidates), number in zip(blocks, having, strict=True):
        ways = math.comb(size, candidates)
        of_block = [
            math.comb(number, each) * math.comb(size - number, candidates - each) / ways
            if candidates >= each
            else 0.0
            for each in range(number + 1)
        ]
        convolved = [0.0] * (len(chances) + number)
        for index, chance in enumerate(chances):
            for each, factor in enumerate(of_block):
                convolved[index + each] += chance * factor
        chances = convolved
    starts = sum(size for size, _ in blocks)
    mean = sum(having) * sum(candidates for _, candidates in blocks) / starts
    real = abs(candidate - mean) - _ROUNDING
    return math.fsum(chance for each, chance in enumerate(chances) if abs(each - mean) >= real)


# The same few designs come back at each look.
@lru_cache(maxsize=32)
def _labelings_of(places: tuple[_Place, ...], starts: int) -> Labelings:
    total = math.prod(math.comb(len(indices), size) for indices, size in places)
    if total > _MOST_LABELINGS:
        return Labelings(_drawn(places, starts), are_all=False, total=total)
    return Labelings(_all(places, starts), are_all=True, total=total)


def _all(places: Sequence[_Place], starts: int) -> "NDArray[np.float32]":
    import numpy as np

    rows = np.zeros((1, starts), dtype=np.float32)
    for indices, size in places:
        chosen = list(combinations(indices, size))
        block = np.zeros((len(chosen), starts), dtype=np.float32)
        for row, members in enumerate(chosen):
            block[row, list(members)] = 1
        rows = (rows[:, None, :] + block[None, :, :]).reshape(-1, starts)
    return rows


def _drawn(places: Sequence[_Place], starts: int) -> "NDArray[np.float32]":
    import numpy as np

    # Seeded: the same evidence must give the same verdict.
    source = np.random.default_rng(0)
    rows = np.zeros((_DRAWS, starts), dtype=np.float32)
    for indices, size in places:
        keys = source.random((_DRAWS, len(indices)))
        chosen = np.argsort(keys, axis=1)[:, :size]
        members = np.array(indices)[chosen]
        np.put_along_axis(rows, members, 1, axis=1)
    return rows

# SPDX-License-Identifier: Apache-2.0
"""The exact test for a label of starts, by columns of starts that gave one answer. Pure.

If the label meant nothing, the starts would be exchangeable, and every labeling with as many starts
as likely. The statistic is the largest squared correlation of a column with the label, and the
p-value the share of labelings for which it is as large (Fisher 1935, The Design of Experiments, 21;
Phipson & Smyth 2010, doi:10.2202/1544-6115.1585, for drawn ones). A column and a labeling are masks:
bit i is start i.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

_MOST_LABELINGS = 5_000
_DRAWS = 2_000
# Correlations are sums of the same whole numbers in another order.
_ROUNDING = 1e-9


def p_value(masks: Sequence[int], label: int, total: int, level: float) -> float:
    """The share of labelings whose largest correlation is at least that of `label`.

    Exact for few labelings. Otherwise drawn, with the "+1" of Phipson & Smyth, and only until it is
    clear that the level is not reached: then the result is some value above it.
    """
    labelled = label.bit_count()
    needed = max(phi_squared(mask, label, total) for mask in masks) - _ROUNDING
    able = _able(masks, needed, labelled, total)
    labelings = math.comb(total, labelled)
    extreme = 0
    drawn: Iterator[int] = map(mask_of, combinations(range(total), labelled))
    if labelings > _MOST_LABELINGS:
        # The real labeling is one of all.
        labelings = _DRAWS + 1
        extreme = 1
        drawn = _draws(labelled, total)
    for labeling in drawn:
        extreme += _lines_up(able, labeling)
        if extreme > level * labelings:
            break
    return extreme / labelings


def _able(
    masks: Sequence[int], needed: float, labelled: int, total: int
) -> list[tuple[int, frozenset[int]]]:
    """The columns that reach `needed` with some labeling, each with the overlaps that do.

    A column of few starts lines up with none well enough: most columns of noise are such.
    """
    overlaps: dict[int, frozenset[int]] = {}
    able = []
    for mask in masks:
        size = mask.bit_count()
        if size not in overlaps:
            every = range(min(size, labelled) + 1)
            reaching = (
                each for each in every if _of_overlap(each, size, labelled, total) >= needed
            )
            overlaps[size] = frozenset(reaching)
        if overlaps[size]:
            able.append((mask, overlaps[size]))
    return able


def _lines_up(able: Sequence[tuple[int, frozenset[int]]], labeling: int) -> bool:
    return any((mask & labeling).bit_count() in overlaps for mask, overlaps in able)


def _draws(labelled: int, total: int) -> Iterator[int]:
    source = random.Random(0)  # noqa: S311 - the same evidence must give the same verdict
    for _ in range(_DRAWS):
        yield mask_of(source.sample(range(total), labelled))


def phi_squared(mask: int, label: int, total: int) -> float:
    """The squared correlation of a column with a label over `total` starts, from 0 to 1."""
    overlap = (mask & label).bit_count()
    return _of_overlap(overlap, mask.bit_count(), label.bit_count(), total)


def _of_overlap(overlap: int, size: int, labelled: int, total: int) -> float:
    """The squared correlation of a column of `size` starts with `labelled` starts, `overlap` common.

    A column of all starts or of none correlates with nothing.
    """
    spread = size * (total - size) * labelled * (total - labelled)
    if spread == 0:
        return 0.0
    excess = total * overlap - size * labelled
    return excess * excess / spread


def mask_of(indices: Iterable[int]) -> int:
    """The starts at these indices as bits."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask

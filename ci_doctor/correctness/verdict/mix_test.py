# SPDX-License-Identifier: Apache-2.0
"""The exact test: is the candidate's mix of answers another one than the baseline's? Pure.

If the change has no effect, each start would have answered the same under the other label, and the
labels are chance: they were drawn within blocks. The p-value is the share of all such draws whose
largest difference is as large as the real one (Fisher 1935, The Design of Experiments, 21; the
largest of many statistics: Westfall & Young 1993; "+1": Phipson & Smyth 2010,
doi:10.2202/1544-6115.1585). Nothing is assumed of how requests depend on each other, of how many
modes the machine has, or of what it does over time.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_doctor.correctness.verdict.labelings import Labels, labelings
from ci_doctor.correctness.verdict.traits import AnswerTable, Column, Traits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns that are tested together, which bounds the memory.
_CHUNK = 200
# Equal differences are equal, however they were rounded.
_ROUNDING = 1e-9
# A table counts a trifle less than a single answer that separates the arms as well.
_OF_A_TABLE = 1 - 1e-6


class MixTest(Struct, frozen=True, kw_only=True):
    """The result: `p`, the smallest p that these starts can reach, and the number of labelings.

    `spendable` are all p-values that some labeling reaches, in order. `requests` are those whose
    mix of answers differs as much as any.
    """

    p: float
    smallest_p: float
    labelings: int
    spendable: tuple[float, ...]
    requests: tuple[str, ...]


def mix_test(given: Traits, labels: Labels) -> MixTest:
    """The test over all labelings within the blocks. `given` has at least one column."""
    import numpy as np

    possible = labelings(labels)
    largest, real = _largest(given, labels, possible.rows)
    ordered = np.sort(largest)
    # Each labeling's rank from the top is its p-value; all labelings of a tie have the last rank.
    ranks = len(ordered) - np.searchsorted(ordered, np.unique(ordered) - _ROUNDING)
    extreme = len(ordered) - int(np.searchsorted(ordered, real - _ROUNDING))
    more = 0 if possible.are_all else 1
    total = len(ordered) + more
    spendable = tuple(sorted((int(rank) + more) / total for rank in ranks))
    return MixTest(
        p=(extreme + more) / total,
        smallest_p=spendable[0],
        labelings=possible.total,
        spendable=spendable,
        requests=_requests(given, labels, real),
    )


def own_p(given: Traits, labels: Labels) -> float:
    """How often chance alone gives the candidate as many answers that the baseline never gave.

    An answer counts once for each start and request.
    """
    import numpy as np

    possible = labelings(labels)
    real = np.array([labels.candidate], dtype=np.float32)
    count = np.zeros(len(possible.rows), dtype=np.float64)
    own = 0.0
    for matrix, weights, _ in _matrices(given.columns, len(labels.candidate)):
        sizes = matrix.sum(axis=0)
        count += ((possible.rows @ matrix) >= sizes) @ (weights * sizes)
        own += float((((real @ matrix) >= sizes) @ (weights * sizes))[0])
    extreme = int((count >= own - _ROUNDING).sum())
    more = 0 if possible.are_all else 1
    return (extreme + more) / (len(possible.rows) + more)


def _largest(given: Traits, labels: Labels, labelings: Any) -> "tuple[NDArray[np.float64], float]":
    """The largest difference of each labeling, and of the real one."""
    import numpy as np

    starts = len(labels.candidate)
    real = np.array([labels.candidate], dtype=np.float32)
    both = np.concatenate([labelings, real])
    largest = np.zeros(len(both))
    for matrix, _, bad in _matrices(given.columns, starts):
        np.maximum(largest, _differences(both, matrix, bad).max(axis=1), out=largest)
    for begin in range(0, len(given.tables), _CHUNK):
        tables = given.tables[begin : begin + _CHUNK]
        np.maximum(largest, _of_tables(both, tables, starts).max(axis=1), out=largest)
    return largest[:-1], float(largest[-1])


def _differences(labelings: Any, matrix: Any, bad: Any) -> Any:
    """Squared correlation of each column with each labeling (phi squared), from 0 to 1."""
    import numpy as np

    starts = matrix.shape[0]
    candidates = labelings.sum(axis=1, dtype="float64")[:, None]
    sizes = matrix.sum(axis=0, dtype="float64")[None, :]
    both = (labelings @ matrix).astype("float64")
    covariance = starts * both - sizes * candidates
    variance = sizes * (starts - sizes) * candidates * (starts - candidates)
    covariance = np.where(bad & (covariance < 0), 0.0, covariance)
    return covariance**2 / variance


def _of_tables(labelings: Any, tables: Sequence[AnswerTable], starts: int) -> Any:
    """Cramér's V squared of each table with each labeling, from 0 to 1.

    Chi squared over the number of starts (Cramér, Mathematical Methods of Statistics, 1946, 21.9);
    with two answers it is phi squared.
    """
    import numpy as np

    masks = [mask for table in tables for mask in table.masks]
    first = np.cumsum([0, *(len(table.masks) for table in tables[:-1])])
    matrix = _matrix(masks, starts)
    candidates = labelings.sum(axis=1, dtype="float64")[:, None]
    sizes = matrix.sum(axis=0, dtype="float64")[None, :]
    both = (labelings @ matrix).astype("float64")
    covariance = starts * both - sizes * candidates
    parts = covariance**2 / (sizes * starts * candidates * (starts - candidates))
    return _OF_A_TABLE * np.add.reduceat(parts, first, axis=1)


def _requests(given: Traits, labels: Labels, real: float) -> tuple[str, ...]:
    """The requests of the columns and tables with the largest difference, each once."""
    starts = len(labels.candidate)
    row = _matrix([labels.mask], starts).T
    chosen: dict[str, None] = {}
    for column in given.columns:
        if _difference(column.mask, labels.mask, starts) >= real - _ROUNDING:
            chosen.update(dict.fromkeys(column.requests))
    for table in given.tables:
        if float(_of_tables(row, [table], starts)[0, 0]) >= real - _ROUNDING:
            chosen.update(dict.fromkeys(table.requests))
    return tuple(chosen)


def _difference(column: int, candidates: int, starts: int) -> float:
    size = column.bit_count()
    labels = candidates.bit_count()
    covariance = starts * (column & candidates).bit_count() - size * labels
    return covariance**2 / (size * (starts - size) * labels * (starts - labels))


def _matrix(masks: Sequence[int], starts: int) -> "NDArray[np.float32]":
    """The masks as columns of a matrix with a row for each start."""
    import numpy as np

    length = (starts + 7) // 8
    packed = b"".join(mask.to_bytes(length, "little") for mask in masks)
    rows = np.frombuffer(packed, dtype=np.uint8).reshape(len(masks), length)
    bits = np.unpackbits(rows, axis=1, count=starts, bitorder="little")
    return np.ascontiguousarray(bits.T, dtype=np.float32)


def _matrices(given: Sequence[Column], starts: int) -> Iterator[Any]:
    """The columns as matrices (a row for each start), with their weights and `bad`, in chunks."""
    import numpy as np

    for begin in range(0, len(given), _CHUNK):
        chunk = given[begin : begin + _CHUNK]
        weights = np.array([len(column.requests) for column in chunk], dtype=np.float64)
        bad = np.array([column.bad for column in chunk])
        yield _matrix([column.mask for column in chunk], starts), weights, bad

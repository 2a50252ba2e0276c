# SPDX-License-Identifier: Apache-2.0
"""The exact test: is the candidate's mix of answers another one than the baseline's? Pure.

If the change has no effect, each start would have answered the same under the other label, and the
labels are chance: they were drawn within blocks. The p-value is the share of all such draws whose
largest difference is as large as the real one (Fisher 1935, The Design of Experiments, 21; the
largest of many statistics: Westfall & Young 1993; "+1": Phipson & Smyth 2010,
doi:10.2202/1544-6115.1585). Nothing is assumed of how requests depend on each other, of how many
modes the machine has, or of what it does over time.

All that a verdict asks of an answer is whether it equals another one. Requests on which the same
starts agree are one pattern, so thousands of requests are often a handful of patterns. The test looks
at traits: what a start shows that another does not.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, count
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from ci_doctor.correctness.verdict.starts import Answer, ArmStart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# The class of a missing answer.
MISSING = -1

# A class for each start: 0 for the first start's answer, 1 for the next other one, and so on.
Pattern = tuple[int, ...]

Patterns = Mapping[Pattern, Sequence[str]]


def pattern(outcomes: Sequence[Answer]) -> Pattern:
    """The classes of equal outcomes, one a start. A missing answer (None) is MISSING."""
    different = dict.fromkeys(outcomes)
    different.pop(None, None)
    classes: dict[Answer, int] = dict(zip(different, count(), strict=False))
    classes[None] = MISSING
    return tuple(map(classes.__getitem__, outcomes))


def patterns(starts: Sequence[ArmStart], requests: Sequence[str]) -> Patterns:
    """The requests by their pattern over `starts`."""
    by_start = [map(start.answers.get, requests) for start in starts]
    all_equal = (0,) * len(starts)
    by_pattern: dict[Pattern, list[str]] = {}
    for request, *outcomes in zip(requests, *by_start, strict=True):
        first = outcomes[0] if outcomes else None
        # Most requests are: without this a verdict over many takes three times as long.
        is_equal = first is not None and outcomes.count(first) == len(outcomes)
        classes = all_equal if is_equal else pattern(outcomes)
        by_pattern.setdefault(classes, []).append(request)
    return by_pattern


def among(by_pattern: Patterns, places: Sequence[int]) -> Patterns:
    """The requests by their pattern over the starts at these places alone, in this order."""
    chosen: dict[Pattern, list[str]] = {}
    for each, requests in by_pattern.items():
        answers = [None if each[place] == MISSING else str(each[place]) for place in places]
        chosen.setdefault(pattern(answers), []).extend(requests)
    return chosen


_TWO = 2


class Column(Struct, frozen=True, kw_only=True):
    """A trait that some starts have: one answer to these `requests`, or a trait of whole starts.

    `mask` has a bit for each start with the trait; the first start is bit 0. A trait that is
    `bad` counts only where the candidate has it more often.
    """

    mask: int
    requests: tuple[str, ...] = ()
    bad: bool = False


class AnswerTable(Struct, frozen=True, kw_only=True):
    """The answers to these `requests`: the mask of each, those that one start gave taken together."""

    masks: tuple[int, ...]
    requests: tuple[str, ...]


class Traits(Struct, frozen=True, kw_only=True):
    """What the test looks at; `counts` are those behind the traits of whole starts, each with a number for each start."""

    columns: tuple[Column, ...]
    tables: tuple[AnswerTable, ...] = ()
    counts: tuple[tuple[int, ...], ...] = ()


def traits(by_pattern: Patterns, failed: Sequence[bool]) -> Traits:
    """A column for each answer to each request, and three for the starts as a whole; the tables.

    `failed` says for each start whether a service of it failed. A start as a whole has more failures than
    the average start, more answers that no other start gave, or more answers unlike that of most starts.
    The last is how a fault shows that hits another request in each start. A request has a table if it
    has three different answers or more.
    """
    starts = len(failed)
    requests: dict[int, list[str]] = {}
    tables: dict[tuple[int, ...], list[str]] = {}
    failures = [int(each) for each in failed]
    alone, apart = [0] * starts, [0] * starts
    everything = (1 << starts) - 1
    for pattern, members in by_pattern.items():
        masks = _masks(pattern)
        for mask in masks:
            if mask != everything:
                requests.setdefault(mask, []).extend(members)
        pooled = _pooled(masks)
        if len(pooled) > _TWO:
            tables.setdefault(pooled, []).extend(members)
        _count_traits(pattern, len(members), failures, alone, apart)
    columns = [Column(mask=mask, requests=tuple(each)) for mask, each in requests.items()]
    for numbers in (failures, alone, apart):
        mask = _above_average(numbers)
        if mask:
            columns.append(Column(mask=mask, bad=True))
    several = [AnswerTable(masks=masks, requests=tuple(each)) for masks, each in tables.items()]
    traits = (tuple(failures), tuple(alone), tuple(apart))
    return Traits(columns=tuple(columns), tables=tuple(several), counts=traits)


def _pooled(masks: Sequence[int]) -> tuple[int, ...]:
    """The masks, those of one start taken together: answers that never repeat tell no arm apart."""
    pooled = [mask for mask in masks if mask.bit_count() > 1]
    single = sum(mask for mask in masks if mask.bit_count() == 1)
    if single:
        pooled.append(single)
    return tuple(sorted(pooled))


def _masks(pattern: Pattern) -> list[int]:
    """The starts of each class, a bit each."""
    masks: dict[int, int] = {}
    for index, each in enumerate(pattern):
        masks[each] = masks.get(each, 0) | 1 << index
    return list(masks.values())


def _count_traits(
    pattern: Pattern, weight: int, failures: list[int], alone: list[int], apart: list[int]
) -> None:
    """Add to each start's failed requests, its answers that no other start gave, and those unlike that of most."""
    times = Counter(pattern)
    [(usual, most)] = times.most_common(1)
    is_usual = most * _TWO > len(pattern)
    for index, each in enumerate(pattern):
        if is_usual and each != usual:
            apart[index] += weight
        if each == MISSING:
            failures[index] += weight
        elif times[each] == 1:
            alone[index] += weight


def _above_average(counts: Sequence[int]) -> int:
    """The starts that have more than the average, a bit each."""
    total = sum(counts)
    return sum(1 << index for index, count in enumerate(counts) if count * len(counts) > total)


# So many labelings are enumerated; of more, so many are drawn.
_MOST_LABELINGS = 3_000

_DRAWS = 2_000
# Equal differences are equal, however they were rounded.
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


# Columns that are tested together, which bounds the memory.
_CHUNK = 200


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

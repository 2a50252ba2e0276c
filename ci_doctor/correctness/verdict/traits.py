# SPDX-License-Identifier: Apache-2.0
"""What a start shows that another does not: the traits that the test looks at. Pure."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.correctness.verdict.patterns import MISSING, Pattern, Patterns

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
    """What the test looks at."""

    columns: tuple[Column, ...]
    tables: tuple[AnswerTable, ...] = ()


def traits(by_pattern: Patterns, failed: Sequence[bool]) -> Traits:
    """A column for each answer to each request, and two for the starts as a whole; the tables.

    `failed` says for each start whether a service of it failed. The traits of whole starts are more
    failures, and more answers that no other start gave, than the average start has. A request has a
    table if it has three different answers or more.
    """
    starts = len(failed)
    requests: dict[int, list[str]] = {}
    tables: dict[tuple[int, ...], list[str]] = {}
    failures = [int(each) for each in failed]
    alone = [0] * starts
    everything = (1 << starts) - 1
    for pattern, members in by_pattern.items():
        masks = _masks(pattern)
        for mask in masks:
            if mask != everything:
                requests.setdefault(mask, []).extend(members)
        pooled = _pooled(masks)
        if len(pooled) > _TWO:
            tables.setdefault(pooled, []).extend(members)
        _count_traits(pattern, len(members), failures, alone)
    columns = [Column(mask=mask, requests=tuple(each)) for mask, each in requests.items()]
    for counts in (failures, alone):
        mask = _above_average(counts)
        if mask:
            columns.append(Column(mask=mask, bad=True))
    several = [AnswerTable(masks=masks, requests=tuple(each)) for masks, each in tables.items()]
    return Traits(columns=tuple(columns), tables=tuple(several))


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


def _count_traits(pattern: Pattern, weight: int, failures: list[int], alone: list[int]) -> None:
    """Add to the starts' failed requests, and to their answers that no other start gave."""
    times = Counter(pattern)
    for index, each in enumerate(pattern):
        if each == MISSING:
            failures[index] += weight
        elif times[each] == 1:
            alone[index] += weight


def _above_average(counts: Sequence[int]) -> int:
    """The starts that have more than the average, a bit each."""
    total = sum(counts)
    return sum(1 << index for index, count in enumerate(counts) if count * len(counts) > total)

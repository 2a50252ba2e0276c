# SPDX-License-Identifier: Apache-2.0
"""Which two answers to a request show the difference best. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

from msgspec import Struct

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import DifferenceKind


class StartDigests(Struct, frozen=True, kw_only=True):
    """What the start `name` answered to one request: the digest of its answer by pass."""

    name: str
    arm: Arm
    digests: Mapping[int, str]
    archived: bool = False


class AnswerPair(Struct, frozen=True, kw_only=True):
    """The answers of two starts to one request in pass `number`, as digests; None is no answer.

    `other` is the second answer's pass if two passes of one start are compared.
    """

    first: str
    second: str
    number: int
    other: int = 0
    left: str | None
    right: str | None
    archived: bool = False


_Starts = Iterable[tuple[StartDigests, StartDigests]]


def telling_pairs(kind: DifferenceKind, starts: Sequence[StartDigests]) -> tuple[AnswerPair, ...]:
    """The pair of answers that shows most, or two pairs that differ in the baseline's answer only.

    If only the baseline varies: two baseline starts. Else: a baseline and a candidate start. A
    missing answer is shown only if no two answers differ.
    """
    baseline = [start for start in starts if start.arm is Arm.BASELINE]
    if kind is DifferenceKind.FLAKY:
        differing = list(_differing(combinations(baseline, 2)))
        return tuple(differing[:1]) or _one_missing(combinations(baseline, 2))
    candidate = [start for start in starts if start.arm is Arm.CANDIDATE]
    differing = list(_differing(product(baseline, candidate)))
    if not differing:
        return _one_missing(product(baseline, candidate))
    return _most_telling(differing, baseline)


def _most_telling(
    differing: Sequence[AnswerPair], baseline: Sequence[StartDigests]
) -> tuple[AnswerPair, ...]:
    """The first pair, and a second one with another answer of the baseline, if there is one."""
    of_baseline: set[str] = set()
    for start in baseline:
        of_baseline.update(start.digests.values())
    # An answer that no baseline start gave proves more than one which differs from some of them.
    own = [pair for pair in differing if pair.right not in of_baseline]
    pairs = own or differing
    first = pairs[0]
    for pair in pairs:
        if pair.right == first.right and pair.left != first.left:
            return first, pair
    return (first,)


def _differing(starts: _Starts) -> Iterator[AnswerPair]:
    for first, second in starts:
        for number, left in first.digests.items():
            if second.digests.get(number, left) != left:
                yield _pair(first, second, number)


def _one_missing(starts: _Starts) -> tuple[AnswerPair, ...]:
    """The first pair of which only one start answered; empty if there is none."""
    for first, second in starts:
        for number in sorted({*first.digests, *second.digests}):
            if (number in first.digests) != (number in second.digests):
                return (_pair(first, second, number),)
    return ()


def _pair(first: StartDigests, second: StartDigests, number: int) -> AnswerPair:
    return AnswerPair(
        first=first.name,
        second=second.name,
        number=number,
        left=first.digests.get(number),
        right=second.digests.get(number),
        archived=first.archived or second.archived,
    )

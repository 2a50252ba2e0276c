# SPDX-License-Identifier: Apache-2.0
"""Which two answers to a request show the difference best. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product

from msgspec import Struct

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import DifferenceKind


class StartDigests(Struct, frozen=True, kw_only=True):
    """What the start `name` answered to one request: the digest of its answer by pass.

    `outcome` is that of all passes at the gate's level; None if it is unknown or a pass has none.
    """

    name: str
    arm: Arm
    digests: Mapping[int, str]
    outcome: str | None = None
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
    candidate = [start for start in starts if start.arm is Arm.CANDIDATE]
    if kind is DifferenceKind.FLAKY:
        pairs = list(combinations(baseline, 2))
        differing = _differing(pairs)[:1]
    else:
        pairs = list(product(baseline, candidate))
        differing = _most_telling(_differing(pairs), baseline)
    return tuple(differing) or _one_missing(pairs)


def _most_telling(
    differing: Sequence[AnswerPair], baseline: Sequence[StartDigests]
) -> list[AnswerPair]:
    """The first pair, and a second one with another answer of the baseline, if there is one."""
    of_baseline: set[str] = set()
    for start in baseline:
        of_baseline.update(start.digests.values())
    # An answer that no baseline start gave proves more than one which differs from some of them.
    own = [pair for pair in differing if pair.right not in of_baseline]
    pairs = own or differing
    telling = list(pairs[:1])
    for pair in pairs:
        if pair.right == pairs[0].right and pair.left != pairs[0].left:
            telling.append(pair)
            break
    return telling


def _differing(starts: _Starts) -> list[AnswerPair]:
    """The passes in which both starts answered, and not the same.

    Two starts with one outcome differ in nothing that the gate compares.
    """
    pairs = []
    for first, second in starts:
        if first.outcome is not None and first.outcome == second.outcome:
            continue
        for number, left in first.digests.items():
            if second.digests.get(number, left) != left:
                pair = _pair(first, second, number)
                pairs.append(pair)
    return pairs


def _one_missing(starts: _Starts) -> tuple[AnswerPair, ...]:
    """The first pair of which only one start answered; empty if there is none."""
    for first, second in starts:
        # The passes that exactly one of the two answered.
        lone = first.digests.keys() ^ second.digests.keys()
        if lone:
            pair = _pair(first, second, min(lone))
            return (pair,)
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

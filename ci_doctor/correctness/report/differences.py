# SPDX-License-Identifier: Apache-2.0
"""Which two answers tell most of each request that differs, and where they part. Pure, but for the lookup of outputs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.alignment import (
    Row,
    manner,
    place,
    rows_around,
    side_lines,
    sides,
)
from ci_doctor.correctness.report.divergence import Divergence, first_divergence, no_answer
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import DifferenceKind, counted
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.errors import InfraError

# The order in which differing requests are shown: what tells most comes first.
TELLING = (
    DifferenceKind.CHANGED,
    DifferenceKind.OWN,
    DifferenceKind.SOMETIMES,
    DifferenceKind.FLAKY,
)
_HARDEST = tuple(Hardness)
# An archived answer is read through gzip, which costs a pass over all that stands before it.
_ARCHIVED_LOOKUPS = 40


class Said(Struct, frozen=True, kw_only=True):
    """What the start `name` said to one request: the digest of its answer by pass."""

    name: str
    arm: Arm
    digests: Mapping[int, str]
    archived: bool = False


class Pair(Struct, frozen=True, kw_only=True):
    """The answers of two starts to one request in pass `number`, as digests; None is no answer.

    `other` is the second one's pass where two passes of one start are held against each other.
    """

    first: str
    second: str
    number: int
    other: int = 0
    left: str | None
    right: str | None
    archived: bool = False


class Difference(Struct, frozen=True, kw_only=True):
    """A request whose answers differ, the pair that tells most of it, and where that parts."""

    request: str
    kind: DifferenceKind
    pair: Pair
    divergence: Divergence


def counted_results(experiment: Experiment) -> list[StartResult]:
    """The starts that are evidence, those of today before archived ones."""
    names = {start.name for start in counted(experiment.starts)}
    results = [result for result in experiment.compared if result.start.name in names]
    return sorted(results, key=lambda result: result.start.archived)


def differences(
    experiment: Experiment, decision: Decision, requests: Sequence[str]
) -> tuple[Difference, ...]:
    """Every request that differs, hardest first; where the candidate shows something of its own comes before all else.

    At most three outputs are looked up for each, and none is kept.
    """
    results = counted_results(experiment)
    found, archived = [], 0
    for request in requests:
        kind = decision.kinds.get(request)
        if kind not in TELLING:
            continue
        said = [
            Said(
                name=result.start.name,
                arm=result.start.arm,
                digests=result.digests.get(request, {}),
                archived=result.start.archived,
            )
            for result in results
        ]
        pairs = telling_pairs(kind, said)
        if not pairs:
            continue
        archived += any(pair.archived for pair in pairs)
        known = archived <= _ARCHIVED_LOOKUPS or not any(pair.archived for pair in pairs)
        pair, divergence = _latest(experiment.outputs, pairs) if known else (pairs[0], _unread())
        found.append(Difference(request=request, kind=kind, pair=pair, divergence=divergence))
    return tuple(sorted(found, key=_order))


def _order(difference: Difference) -> tuple[bool, int, int]:
    return (
        difference.kind is DifferenceKind.FLAKY,
        _HARDEST.index(difference.divergence.hardness),
        TELLING.index(difference.kind),
    )


def telling_pairs(kind: DifferenceKind, said: Sequence[Said]) -> tuple[Pair, ...]:
    """The pair of answers that tells most, or two of them that differ in the baseline's answer only.

    Two baseline starts where only the baseline varies; else a baseline against a candidate start, and there an answer
    that no baseline start gave before one that merely differs. A missing answer is shown only where no two differ.
    """
    baseline = [each for each in said if each.arm is Arm.BASELINE]
    if kind is DifferenceKind.FLAKY:
        return tuple(_differing(combinations(baseline, 2)))[:1] or _one_missing(
            combinations(baseline, 2)
        )
    candidate = [each for each in said if each.arm is Arm.CANDIDATE]
    differing = list(_differing(product(baseline, candidate)))
    if not differing:
        return _one_missing(product(baseline, candidate))
    known = {digest for each in baseline for digest in each.digests.values()}
    own = [pair for pair in differing if pair.right not in known] or differing
    others = [pair for pair in own if pair.right == own[0].right and pair.left != own[0].left]
    return (own[0], *others[:1])


def _differing(pairs: Iterable[tuple[Said, Said]]) -> Iterator[Pair]:
    for first, second in pairs:
        for number, left in first.digests.items():
            if second.digests.get(number, left) != left:
                yield _pair(first, second, number)


def _one_missing(pairs: Iterable[tuple[Said, Said]]) -> tuple[Pair, ...]:
    found = (
        _pair(first, second, number)
        for first, second in pairs
        for number in sorted({*first.digests, *second.digests})
        if (number in first.digests) != (number in second.digests)
    )
    return tuple(pair for pair, _ in zip(found, range(1), strict=False))


def _pair(first: Said, second: Said, number: int) -> Pair:
    return Pair(
        first=first.name,
        second=second.name,
        number=number,
        left=first.digests.get(number),
        right=second.digests.get(number),
        archived=first.archived or second.archived,
    )


def _latest(
    outputs: Mapping[str, Mapping[str, Any]], pairs: Sequence[Pair]
) -> tuple[Pair, Divergence]:
    """Of two pairs the one that parts last: the nearer of two baseline answers says more of what is the candidate's own.

    The right side of both is the same output.
    """
    right = _look_up(outputs, pairs[0].right)
    found = [(pair, _diverge(_look_up(outputs, pair.left), right, pair)) for pair in pairs]
    return max(found, key=lambda each: -1 if each[1].position is None else each[1].position)


def _diverge(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, pair: Pair
) -> Divergence:
    if pair.left is None or pair.right is None:
        return no_answer(left, right)
    return _unread() if left is None or right is None else first_divergence(left, right)


def _look_up(
    outputs: Mapping[str, Mapping[str, Any]], digest: str | None
) -> Mapping[str, Any] | None:
    """None where it cannot be read any more: the verdict was made from digests, and stands without the texts."""
    try:
        return outputs[digest] if digest is not None else None
    except (KeyError, InfraError):
        return None


def _unread() -> Divergence:
    return Divergence(field="answer", hardness=Hardness.UNKNOWN)


def logprob_rows(
    outputs: Mapping[str, Mapping[str, Any]], difference: Difference
) -> tuple[Row, ...]:
    """The tokens around a difference; looks up two outputs."""
    left, right = _look_up(outputs, difference.pair.left), _look_up(outputs, difference.pair.right)
    return (
        rows_around(left, right, difference.divergence)
        if left is not None and right is not None
        else ()
    )


def divergence_lines(difference: Difference) -> Iterator[str]:
    """Where two answers part, in three lines."""
    at, pair = difference.divergence, difference.pair
    told = ", ".join(filter(None, (place(at), manner(at))))
    yield f"request {difference.request}: {pair.first} against {pair.second}, {told}"
    yield from side_lines(sides(at, pair.first, pair.second))

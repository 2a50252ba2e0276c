# SPDX-License-Identifier: Apache-2.0
"""Reads differing answers again, finds where they diverge, and says which to show."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.collected.reread import Collected
from ci_doctor.correctness.collected.sources import SourcePosition
from ci_doctor.correctness.report.divergence import Divergence, first_divergence, no_answer
from ci_doctor.correctness.report.tokens import Hardness
from ci_doctor.correctness.settings import AnswerLevel, Arm
from ci_doctor.correctness.tally import digest_at
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind, of_arm, outcomes
from ci_doctor.load.canonical import answer_count

# What tells most comes first.
TELLING = (
    DifferenceKind.CHANGED,
    DifferenceKind.OWN,
    DifferenceKind.SOMETIMES,
    DifferenceKind.FLAKY,
)
EXAMINED = 200  # differing requests that are read again to find where their answers diverge
SHOWN = 3
WIDEST = 30

_HARDEST = tuple(Hardness)


class CollectedDifference(Struct, frozen=True, kw_only=True):
    """Two starts' answers to one request that differ.

    `place` is the position of the second answer, None if it has none. `silent` is the start without
    an answer, or with fewer choices; None if both have as many.
    """

    request: str
    kind: DifferenceKind
    first: str
    second: str
    divergence: Divergence
    place: SourcePosition | None
    silent: str | None = None


def collected_differences(
    collected: Collected, decision: Decision
) -> tuple[CollectedDifference, ...]:
    """At most EXAMINED differing requests, the most telling first. Raises InfraError."""
    differences = []
    for request, kind in _differing(collected, decision)[:EXAMINED]:
        difference = _difference(collected, request, kind)
        if difference is not None:
            differences.append(difference)
    return tuple(sorted(differences, key=_order))


def _differing(collected: Collected, decision: Decision) -> list[tuple[str, DifferenceKind]]:
    """The differing requests, the most telling kind first; within a kind, as in the files."""
    by_kind: dict[DifferenceKind, list[str]] = {}
    for request in collected.survey.odd:
        kind = decision.kinds.get(request)
        if kind is not None:
            of_kind = by_kind.setdefault(kind, [])
            of_kind.append(request)
    differing = []
    for kind in TELLING:
        for request in by_kind.get(kind, []):
            pair = (request, kind)
            differing.append(pair)
    return differing


def _order(difference: CollectedDifference) -> tuple[int, int]:
    hardness = _HARDEST.index(difference.divergence.hardness)
    return TELLING.index(difference.kind), hardness


def _difference(
    collected: Collected, request: str, kind: DifferenceKind
) -> CollectedDifference | None:
    """The difference of two starts: baseline and candidate, unless only the baseline differs."""
    baseline = of_arm(collected.starts, Arm.BASELINE)
    candidate = of_arm(collected.starts, Arm.CANDIDATE)
    pairs: Iterable[tuple[ArmStart, ArmStart]] = product(baseline, candidate)
    if kind is DifferenceKind.FLAKY:
        pairs = combinations(baseline, 2)
    pair = _most_telling(request, pairs, outcomes(baseline, request))
    if pair is None:
        return None
    first, second = pair
    return _of_pair(collected, request, kind, first, second)


def _most_telling(
    request: str, pairs: Iterable[tuple[ArmStart, ArmStart]], of_baseline: set[str | None]
) -> tuple[ArmStart, ArmStart] | None:
    """The first pair that differs, if possible in an answer that no baseline start gave."""
    differing = None
    for first, second in pairs:
        answer = second.answers.get(request)
        if answer == first.answers.get(request):
            continue
        if answer not in of_baseline:
            return first, second
        differing = differing or (first, second)
    return differing


def _of_pair(
    collected: Collected, request: str, kind: DifferenceKind, first: ArmStart, second: ArmStart
) -> CollectedDifference:
    left = right = None
    number = 0
    # The first pass that differs: the outcome of a start is a digest over all of its passes.
    for number in range(1, collected.survey.passes + 1):
        left = collected.output(first.name, request, number)
        right = collected.output(second.name, request, number)
        if _differ(left, right, collected.comparison.level):
            break
    if left is None or right is None:
        divergence = no_answer(left, right)
    else:
        divergence = first_divergence(left, right)
    silent = None
    if _choices(left) < _choices(right):
        silent = first.name
    elif _choices(left) > _choices(right):
        silent = second.name
    return CollectedDifference(
        request=request,
        kind=kind,
        first=first.name,
        second=second.name,
        divergence=divergence,
        place=collected.place(second.name, request, number),
        silent=silent,
    )


def _differ(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, level: AnswerLevel
) -> bool:
    if left is None or right is None or level is AnswerLevel.NUMBERS:
        return left != right
    return digest_at(left, level) != digest_at(right, level)


def _choices(output: Mapping[str, Any] | None) -> int:
    # An answer without a choice is still more than no answer.
    if output is None:
        return -1
    return answer_count(output)


def difference_lines(difference: CollectedDifference) -> Iterator[str]:
    """Where two answers diverge, in three lines."""
    first = difference.first
    second = difference.second
    at = difference.divergence
    request = f"request {difference.request}"
    pair = f"{first} against {second}"
    if at.hardness is Hardness.MISSING:
        silent = difference.silent or first
        yield f"{request}, {pair}: {silent} has no answer, or fewer choices"
        return
    where = _where(at)
    if at.apart is not None:
        pair = f"{pair} ({at.apart.words})"
    elif at.hardness is not Hardness.UNKNOWN:
        pair = f"{pair} ({at.hardness})"
    yield f"{request}{where}, {pair}"
    # Next to the difference: the end of what both share, and the beginning of what follows.
    before = _printable(at.before[-WIDEST:])
    left = _printable(at.left[:WIDEST])
    right = _printable(at.right[:WIDEST])
    yield f"{first:>4}  …{before}[{left}]"
    yield f"{second:>4}  …{before}[{right}]"


def _where(at: Divergence) -> str:
    words = ""
    # The answer's own text needs no name.
    if at.field not in {"text", "content"}:
        words = f", {at.field}"
    if at.position is None:
        return words
    return f"{words}, {at.unit} {at.position}"


def _printable(text: str) -> str:
    """One line of ASCII if anything in `text` could act on a terminal."""
    if text.isprintable():
        return text
    return text.encode("unicode_escape", "backslashreplace").decode("ascii")

# SPDX-License-Identifier: Apache-2.0
"""Reads differing answers again, finds where they diverge, and says which to show."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.collected.settle import Collected
from ci_doctor.correctness.collected.sources import SourcePosition
from ci_doctor.correctness.report.divergence import Divergence, first_divergence, no_answer
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import ArmStart, DifferenceKind, of_arm
from ci_doctor.correctness.verdict.decision import Decision

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
    by_kind: dict[DifferenceKind, list[tuple[str, DifferenceKind]]] = {kind: [] for kind in TELLING}
    for request in collected.survey.odd:
        kind = decision.kinds.get(request)
        if kind in by_kind:
            by_kind[kind].append((request, kind))
    requests = []
    for of_kind in by_kind.values():
        requests.extend(of_kind)
    return requests


def _order(difference: CollectedDifference) -> tuple[int, int]:
    hardness = _HARDEST.index(difference.divergence.hardness)
    return TELLING.index(difference.kind), hardness


def _difference(
    collected: Collected, request: str, kind: DifferenceKind
) -> CollectedDifference | None:
    """The difference of two starts: baseline and candidate, unless only the baseline differs."""
    baseline = of_arm(collected.starts, Arm.BASELINE)
    candidate = of_arm(collected.starts, Arm.CANDIDATE)
    pairs = (
        combinations(baseline, 2) if kind is DifferenceKind.FLAKY else product(baseline, candidate)
    )
    of_baseline = {start.answers.get(request) for start in baseline}
    pair = _most_telling(request, pairs, of_baseline)
    return _of_pair(collected, request, kind, *pair) if pair else None


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
    for number in range(1, collected.survey.passes + 1):
        left = collected.output(first.name, request, number)
        right = collected.output(second.name, request, number)
        if left != right:
            break
    if left is None or right is None:
        divergence = no_answer(left, right)
    else:
        divergence = first_divergence(left, right)
    silent = None
    if _choices(left) != _choices(right):
        silent = first.name if _choices(left) < _choices(right) else second.name
    return CollectedDifference(
        request=request,
        kind=kind,
        first=first.name,
        second=second.name,
        divergence=divergence,
        place=collected.place(second.name, request, number),
        silent=silent,
    )


def _choices(output: Mapping[str, Any] | None) -> int:
    return -1 if output is None else len(output["choices"])


def difference_lines(difference: CollectedDifference) -> Iterator[str]:
    """Where two answers diverge, in three lines."""
    first = difference.first
    second = difference.second
    request = f"request {difference.request}"
    pair = f"{first} against {second}"
    at = difference.divergence
    if at.hardness is Hardness.MISSING:
        yield f"{request}, {pair}: {difference.silent or first} has no answer, or fewer choices"
        return
    field = "" if at.field in {"text", "content"} else f", {at.field}"
    position = "" if at.position is None else f", {at.unit} {at.position}"
    hard = "" if at.hardness is Hardness.UNKNOWN else f" ({at.hardness})"
    yield f"{request}{field}{position}, {pair}{hard}"
    before = _printable(at.before[-WIDEST:])
    yield f"{first:>4}  …{before}[{_printable(at.left[:WIDEST])}]"
    yield f"{second:>4}  …{before}[{_printable(at.right[:WIDEST])}]"


def _printable(text: str) -> str:
    """One line of ASCII if anything in `text` could act on a terminal."""
    if text.isprintable():
        return text
    return text.encode("unicode_escape", "backslashreplace").decode("ascii")

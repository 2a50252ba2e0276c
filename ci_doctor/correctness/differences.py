# SPDX-License-Identifier: Apache-2.0
"""Which differing answers to show, and where they part. Pure."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

from msgspec import Struct

from ci_doctor.correctness.compare import Divergence, Kind, first_divergence
from ci_doctor.correctness.decide import Decision
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.load.requests import Request

# The order in which differing requests are shown: what tells most comes first.
TELLING = (Kind.CHANGED, Kind.OWN, Kind.SOMETIMES, Kind.FLAKY)
WIDEST = 30


class Difference(Struct, frozen=True, kw_only=True):
    """Two answers to one request that differ, and the starts that gave them."""

    request: Request
    kind: Kind
    first: str
    second: str
    divergence: Divergence


def differences(
    experiment: Experiment, decision: Decision, requests: Sequence[Request], most: int = 3
) -> tuple[Difference, ...]:
    """The most telling differences, at most `most` of them."""
    found: list[Difference] = []
    for kind in TELLING:
        for request in requests:
            if len(found) < most and decision.kinds.get(request.id) is kind:
                difference = _difference(experiment, request, kind)
                found += [difference] if difference else []
    return tuple(found)


def _difference(experiment: Experiment, request: Request, kind: Kind) -> Difference | None:
    """The first two starts whose answers differ: baseline against candidate, unless only the baseline differs.

    An answer that no baseline start gave comes before one that merely differs from some baseline start's.
    """
    results = [result for result in experiment.results if not result.cut_short and not result.start.outside]
    baseline = [result for result in results if result.start.arm is Arm.BASELINE]
    candidate = [result for result in results if result.start.arm is Arm.CANDIDATE]
    pairs = combinations(baseline, 2) if kind is Kind.FLAKY else product(baseline, candidate)
    found = list(_differing_answers(request.id, pairs))
    if not found:
        return None
    shown = {output for result in baseline for output in result.digests.get(request.id, {}).values()}
    first, second, left, right = next((each for each in found if each[3] not in shown), found[0])
    return Difference(
        request=request,
        kind=kind,
        first=first.start.name,
        second=second.start.name,
        divergence=first_divergence(
            request.id, json.loads(experiment.outputs[left]), json.loads(experiment.outputs[right])
        ),
    )


def _differing_answers(
    request: str, pairs: Iterable[tuple[StartResult, StartResult]]
) -> Iterator[tuple[StartResult, StartResult, str, str]]:
    """The pairs of starts that answered a pass differently, and the digests of both answers."""
    for first, second in pairs:
        others = second.digests.get(request, {})
        for number, left in first.digests.get(request, {}).items():
            if others.get(number, left) != left:
                yield first, second, left, others[number]


def divergence_lines(difference: Difference) -> Iterator[str]:
    """Where two answers part, in three lines."""
    at = difference.divergence
    place = f"character {at.position}" if at.field == "text" else f"{at.field}, character {at.position}"
    yield f"request {difference.request.id}, {place}, {difference.first} against {difference.second}"
    before = _printable(at.before[-WIDEST:])
    yield f"{difference.first:>4}  …{before}[{_printable(at.baseline[:WIDEST])}]"
    yield f"{difference.second:>4}  …{before}[{_printable(at.candidate[:WIDEST])}]"


def _printable(text: str) -> str:
    """One line that any terminal and any encoding can show."""
    return text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text

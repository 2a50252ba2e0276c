# SPDX-License-Identifier: Apache-2.0
"""Which differing answers to show, and where they part."""

from collections.abc import Iterator
from itertools import combinations, product

from msgspec import Struct

from ci_doctor.correctness.collected.settle import Collected
from ci_doctor.correctness.collected.sources import Place
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
EXAMINED = 200  # differing requests that are read again to see where their answers part
SHOWN = 3
WIDEST = 30


class Parting(Struct, frozen=True, kw_only=True):
    """Two starts' answers to one request that differ; `place` is where the second stands, if it does."""

    request: str
    kind: DifferenceKind
    first: str
    second: str
    divergence: Divergence
    place: Place | None


def partings(collected: Collected, decision: Decision) -> tuple[Parting, ...]:
    """The differing requests, at most EXAMINED of them, the most telling first. Reads files; raises InfraError."""
    differing = [
        (request, kind)
        for kind in TELLING
        for request in collected.survey.odd
        if decision.kinds.get(request) is kind
    ]
    found = [_parting(collected, request, kind) for request, kind in differing[:EXAMINED]]
    order = list(Hardness)
    return tuple(
        sorted(
            (each for each in found if each),
            key=lambda each: (TELLING.index(each.kind), order.index(each.divergence.hardness)),
        )
    )


def _parting(collected: Collected, request: str, kind: DifferenceKind) -> Parting | None:
    """Of the first pair of starts that differ: baseline against candidate, unless only the baseline differs."""
    baseline, candidate = (of_arm(collected.starts, arm) for arm in Arm)
    shown = {start.answers.get(request) for start in baseline}
    pairs = list(
        combinations(baseline, 2) if kind is DifferenceKind.FLAKY else product(baseline, candidate)
    )
    differing = [
        pair for pair in pairs if pair[0].answers.get(request) != pair[1].answers.get(request)
    ]
    if not differing:
        return None
    # An answer that no baseline start gave comes before one that merely differs from some baseline start's.
    first, second = next(
        (pair for pair in differing if pair[1].answers.get(request) not in shown), differing[0]
    )
    return _of_pair(collected, request, kind, first, second)


def _of_pair(
    collected: Collected, request: str, kind: DifferenceKind, first: ArmStart, second: ArmStart
) -> Parting:
    for number in range(1, collected.survey.passes + 1):
        left, right = (collected.output(start.name, request, number) for start in (first, second))
        if left != right or number == collected.survey.passes:
            return Parting(
                request=request,
                kind=kind,
                first=first.name,
                second=second.name,
                divergence=no_answer(left, right)
                if left is None or right is None
                else first_divergence(left, right),
                place=collected.place(second.name, request, number),
            )
    raise AssertionError


def parting_lines(parting: Parting) -> Iterator[str]:
    """Where two answers part, in three lines."""
    at = parting.divergence
    pair = f"{parting.first} against {parting.second}"
    if at.hardness is Hardness.MISSING:
        silent = parting.second if parting.place is None else parting.first
        yield f"request {parting.request}, {pair}: {silent} has no answer, or fewer choices"
        return
    place = f", {at.unit} {at.position}" if at.position is not None else ""
    field = "" if at.field in {"text", "content"} else f", {at.field}"
    hard = "" if at.hardness is Hardness.UNKNOWN else f" ({at.hardness})"
    yield f"request {parting.request}{field}{place}, {pair}{hard}"
    before = _printable(at.before[-WIDEST:])
    yield f"{parting.first:>4}  …{before}[{_printable(at.left[:WIDEST])}]"
    yield f"{parting.second:>4}  …{before}[{_printable(at.right[:WIDEST])}]"


def _printable(text: str) -> str:
    """One line that any terminal and any encoding can show."""
    return (
        text
        if text.isprintable()
        else text.encode("unicode_escape", "backslashreplace").decode("ascii")
    )

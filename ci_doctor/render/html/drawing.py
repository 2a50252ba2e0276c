# SPDX-License-Identifier: Apache-2.0
"""Facts of a correctness report -> what its page draws of them, each part by itself. Pure.

Mappings are read in the order of their keys, or in one of ours: report.json does not keep the order of facts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ci_doctor.render.html import facts, histogram, matrix, visible
from ci_doctor.render.html.texts import clipped, clipped_before, value

_BEFORE = 320
_SIDE = 900
_MOST_PAIRS = 10
_POSITIONS = 12
_CHOICES = 5
_MEANINGS = {
    "near-tie": "the two likeliest tokens were almost equally likely: rounding is enough to swap them",
    "hard": "the likeliest token was clearly ahead: rounding alone rarely explains it",
    "numbers": "both say the same; only log-probabilities differ",
    "length": "one answer ends where the other goes on, or ends for another reason",
    "missing": "one side gave no answer",
    "unknown": "there are no log-probabilities to tell by",
}


class Side(Struct, frozen=True):
    """What one start says from where the answers part."""

    start: str
    segments: tuple[tuple[bool, tuple[visible.Run, ...]], ...]
    left_out: int


class Choice(Struct, frozen=True):
    """One token that was likely at a position, and its log-probability."""

    token: tuple[visible.Run, ...]
    value: float | None


class Position(Struct, frozen=True):
    """The likely tokens of both sides at one position."""

    at: int
    left: tuple[Choice, ...]
    right: tuple[Choice, ...]
    ulp: float | None


class Pair(Struct, frozen=True):
    """Two answers to one request, ready to be shown."""

    about: facts.Aligned
    before: tuple[visible.Run, ...]
    sides: tuple[Side, Side]
    code_points: tuple[str, str] | None
    logprobs: tuple[Position, ...]
    meaning: str


class Share(Struct, frozen=True):
    """One reason of differences: its count, and its share of all in percent."""

    name: str
    count: int
    percent: float
    meaning: str


class Difference(Struct, frozen=True):
    """A fact with each of its values and the starts that have it."""

    fact: str
    values: tuple[tuple[str, tuple[str, ...]], ...]


class Drawn(Struct, frozen=True, kw_only=True):
    """The parts of the page that come from facts; empty or None where it leaves one out."""

    figures: tuple[tuple[str, str], ...]
    commits: tuple[tuple[str, str], ...]
    test: facts.Test | None
    tested: bool
    risk: str | None
    settle: str | None
    rare_bug: float | None
    matrix: matrix.View | None
    within: tuple[tuple[str, int], ...]
    clusters: tuple[tuple[str, ...], ...]
    histogram: histogram.Histogram | None
    shares: tuple[Share, ...]
    pairs: tuple[Pair, ...]
    identity: facts.Identity | None
    differences: tuple[Difference, ...]
    suspects: tuple[str, ...]

    @property
    def decision(self) -> bool:
        """True where there is anything to say about how it was decided."""
        return self.tested or bool(self.risk or self.settle) or self.rare_bug is not None


def drawn(found: Mapping[str, Any]) -> Drawn:
    """What there is to draw of the facts `found`."""
    test = facts.part(found, "test", facts.Test)
    picture = facts.part(found, "matrix", facts.Matrix)
    divergence = facts.part(found, "divergence", facts.Divergence)
    identity = facts.part(found, "identity", facts.Identity)
    risk, bound = facts.part(found, "risk", str), facts.part(found, "rare_bug_bound", float)
    said = bound is not None and f"{bound:.0%}" in (risk or "")  # the risk is that very bound
    view = matrix.view(picture, test.disputed if test else ()) if picture else None
    return Drawn(
        figures=tuple(_figures(found, view, test)),
        commits=tuple(_commits(found, identity)),
        test=test,
        tested="test" in found and view is not None,
        risk=risk,
        settle=facts.part(found, "settle", str),
        rare_bug=None if said else bound,
        matrix=view,
        within=tuple(sorted((facts.part(found, "within", dict[str, int]) or {}).items())),
        clusters=facts.part(found, "clusters", tuple[tuple[str, ...], ...]) or (),
        histogram=histogram.histogram(divergence) if divergence else None,
        shares=tuple(_shares(facts.part(found, "differences_by", dict[str, int]) or {})),
        pairs=tuple(
            _pair(each)
            for each in (facts.part(found, "aligned", tuple[facts.Aligned, ...]) or ())[
                :_MOST_PAIRS
            ]
        ),
        identity=identity,
        differences=tuple(_difference(each) for each in identity.differences) if identity else (),
        suspects=facts.part(found, "suspects", tuple[str, ...]) or (),
    )


def _figures(
    found: Mapping[str, Any], view: matrix.View | None, test: facts.Test | None
) -> Iterator[tuple[str, str]]:
    """The few figures that stand large above everything else."""
    if view is None:
        return
    yield "requests", f"{facts.part(found, 'requests', int) or view.total + view.left_out:,}"
    yield "differing", f"{view.differing:,}"
    if test:
        yield "disputed", f"{len(test.disputed):,}"
    yield "baseline starts", str(view.baseline)
    yield "candidate starts", str(len(view.columns) - view.baseline)
    if test:
        yield "p", f"{test.p:.3g}"


def _commits(
    found: Mapping[str, Any], identity: facts.Identity | None
) -> Iterator[tuple[str, str]]:
    """Whatever calls itself a commit."""
    for name, fact in sorted(
        {**(identity.facts if identity else {}), **found}.items(), key=lambda each: each[0]
    ):
        if "commit" in name.lower() and isinstance(fact, str):
            yield name.replace("_", " "), fact[:60]


def _shares(reasons: Mapping[str, int]) -> Iterator[Share]:
    total = sum(count for count in reasons.values() if count > 0)
    order = [*_MEANINGS, *sorted(reasons)]
    for name, count in sorted(reasons.items(), key=lambda each: order.index(each[0])):
        if count > 0:
            yield Share(name, count, round(100 * count / total, 2), _MEANINGS.get(name, ""))


def _pair(about: facts.Aligned) -> Pair:
    left, right = about.left[:_SIDE], about.right[:_SIDE]
    sides = visible.differing(left, right)
    before = clipped_before(about.before, _BEFORE)
    names = (*about.starts, "left", "right")[: max(2, len(about.starts))]
    return Pair(
        about=about,
        before=tuple(visible.runs(before, visible.loose_spaces(before))),
        sides=(
            Side(names[0], tuple(visible.segment_runs(sides[0])), len(about.left) - len(left)),
            Side(names[1], tuple(visible.segment_runs(sides[1])), len(about.right) - len(right)),
        ),
        code_points=_code_points(*sides),
        logprobs=tuple(
            Position(each.at, _choices(each.left), _choices(each.right), each.ulp)
            for each in about.logprobs[:_POSITIONS]
        ),
        meaning=_MEANINGS.get(about.hardness, ""),
    )


def _choices(choices: Sequence[facts.Choice]) -> tuple[Choice, ...]:
    shown = ((clipped(token, 60), value) for token, value in choices[:_CHOICES])
    return tuple(
        Choice(tuple(visible.runs(token, range(len(token)))), value) for token, value in shown
    )


def _code_points(
    left: Sequence[visible.Segment], right: Sequence[visible.Segment]
) -> tuple[str, str] | None:
    """The code points of the first words that differ, where they look the same."""
    first = [next((each.text for each in side if each.differs), "") for side in (left, right)]
    if not visible.look_alike(*first):
        return None
    ours, theirs = (clipped(" ".join(map(visible.code_point, text[:12])), 200) for text in first)
    return ours, theirs


def _difference(difference: facts.IdentityDifference) -> Difference:
    starts: dict[str, list[str]] = {}
    for start, found in sorted(difference.values.items(), key=lambda each: each[0]):
        starts.setdefault(value(found), []).append(start)
    return Difference(
        difference.fact, tuple((text, tuple(names)) for text, names in starts.items())
    )

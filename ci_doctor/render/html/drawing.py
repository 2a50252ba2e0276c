# SPDX-License-Identifier: Apache-2.0
"""Facts of a correctness report -> what its page draws of them, each part by itself. Pure.

Mappings are read in the order of their keys, or in one of ours: report.json does not keep the order
of facts.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.model.facts.answers import (
    AlignedAnswers,
    AnswerMatrix,
    DecisionTest,
    DivergencePositions,
)
from ci_doctor.model.facts.correctness import FactDifference, IdentityFacts
from ci_doctor.render.html import histogram, matrix
from ci_doctor.render.html.facts import part
from ci_doctor.render.html.pairs import MEANINGS, PagePair, page_pair
from ci_doctor.render.html.texts import value

_MOST_PAIRS = 10


class Share(Struct, frozen=True):
    """One reason of differences: its count, and its share of all in percent."""

    name: str
    count: int
    percent: float
    meaning: str


class PageDifference(Struct, frozen=True):
    """A fact with each of its values and the starts that have it."""

    fact: str
    values: tuple[tuple[str, tuple[str, ...]], ...]


class Drawn(Struct, frozen=True, kw_only=True):
    """The parts of the page that come from facts; empty or None if a part is left out."""

    figures: tuple[tuple[str, str], ...]
    commits: tuple[tuple[str, str], ...]
    test: DecisionTest | None
    tested: bool
    risk: str | None
    settle: str | None
    rare_bug: float | None
    matrix: matrix.View | None
    within: tuple[tuple[str, int], ...]
    clusters: tuple[tuple[str, ...], ...]
    histogram: histogram.Histogram | None
    shares: tuple[Share, ...]
    pairs: tuple[PagePair, ...]
    identity: IdentityFacts | None
    differences: tuple[PageDifference, ...]
    suspects: tuple[str, ...]

    @property
    def decision(self) -> bool:
        """Whether there is anything to say about how it was decided."""
        return self.tested or bool(self.risk or self.settle) or self.rare_bug is not None


def drawn(facts: Mapping[str, Any]) -> Drawn:
    """What there is to draw of `facts`."""
    test = part(facts, "test", DecisionTest)
    divergence = part(facts, "divergence", DivergencePositions)
    identity = part(facts, "identity", IdentityFacts)
    view = _view(facts, test)
    within = part(facts, "within", dict[str, int]) or {}
    aligned = part(facts, "aligned", tuple[AlignedAnswers, ...]) or ()
    differences = identity.differences if identity else ()
    return Drawn(
        figures=tuple(_figures(facts, view, test)),
        commits=tuple(_commits(facts, identity)),
        test=test,
        tested="test" in facts and view is not None,
        risk=part(facts, "risk", str),
        settle=part(facts, "settle", str),
        rare_bug=_rare_bug(facts),
        matrix=view,
        within=tuple(sorted(within.items())),
        clusters=part(facts, "clusters", tuple[tuple[str, ...], ...]) or (),
        histogram=histogram.histogram(divergence) if divergence else None,
        shares=tuple(_shares(part(facts, "differences_by", dict[str, int]) or {})),
        pairs=tuple(page_pair(each) for each in aligned[:_MOST_PAIRS]),
        identity=identity,
        differences=tuple(_difference(each) for each in differences),
        suspects=part(facts, "suspects", tuple[str, ...]) or (),
    )


def _view(facts: Mapping[str, Any], test: DecisionTest | None) -> matrix.View | None:
    answers = part(facts, "matrix", AnswerMatrix)
    if answers is None:
        return None
    return matrix.view(answers, test.disputed if test else ())


def _rare_bug(facts: Mapping[str, Any]) -> float | None:
    bound = part(facts, "rare_bug_bound", float)
    risk = part(facts, "risk", str) or ""
    # The sentence about the risk may be about that very bound: the page does not print it twice.
    if bound is not None and f"{bound:.0%}" in risk:
        return None
    return bound


def _figures(
    facts: Mapping[str, Any], view: matrix.View | None, test: DecisionTest | None
) -> Iterator[tuple[str, str]]:
    """The few figures that stand large above everything else."""
    if view is None:
        return
    total = part(facts, "requests", int) or view.total + view.left_out
    yield "requests", f"{total:,}"
    yield "differing", f"{view.differing:,}"
    if test:
        yield "disputed", f"{len(test.disputed):,}"
    yield "baseline starts", str(view.baseline)
    yield "candidate starts", str(len(view.columns) - view.baseline)
    if test:
        yield "p", f"{test.p:.3g}"


def _commits(facts: Mapping[str, Any], identity: IdentityFacts | None) -> Iterator[tuple[str, str]]:
    """Whatever is named a commit."""
    named: dict[str, Any] = dict(identity.facts) if identity else {}
    named.update(facts)
    for name in sorted(named):
        commit = named[name]
        if "commit" in name.lower() and isinstance(commit, str):
            yield name.replace("_", " "), commit[:60]


def _shares(counts: Mapping[str, int]) -> Iterator[Share]:
    total = sum(count for count in counts.values() if count > 0)
    # Known names in their own order, then those of a later version.
    for name in dict.fromkeys([*MEANINGS, *sorted(counts)]):
        count = counts.get(name, 0)
        if count > 0:
            percent = round(100 * count / total, 2)
            yield Share(name, count, percent, MEANINGS.get(name, ""))


def _difference(difference: FactDifference) -> PageDifference:
    starts: dict[str, list[str]] = {}
    for start, text in sorted(difference.values.items()):
        starts.setdefault(value(text), []).append(start)
    values = tuple((text, tuple(names)) for text, names in starts.items())
    return PageDifference(difference.fact, values)

# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of one report."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    AnswerMatrix,
    DivergencePositions,
    FactDifference,
    IdentityFacts,
    LevelFacts,
    PermutationTest,
)
from ci_doctor.model.outcome import Report
from ci_doctor.render.formatting import probability
from ci_doctor.render.headline import links, worst_first
from ci_doctor.render.html import matrix
from ci_doctor.render.html.matrix import Histogram, histogram
from ci_doctor.render.html.pairs import MEANINGS, PagePair, pair
from ci_doctor.render.html.templating import page, part, sheet, value
from ci_doctor.render.safe_text import cleaned

_EXACT = "byte for byte"
# By the level of the gate.
_SAME = {"words": "in words", "tokens": "in words and tokens"}
_MOST_PAIRS = 10
_MOST_OF_A_COMMIT = 60
Counts = dict[str, int]
Facts = Mapping[str, Any]


class PageShare(Struct, frozen=True):
    """One reason of differences: its count, and its share of all in percent."""

    name: str
    count: int
    percent: float
    meaning: str


class PageDifference(Struct, frozen=True):
    """A fact with each of its values and the starts that have it."""

    fact: str
    values: tuple[tuple[str, tuple[str, ...]], ...]


Pairs = tuple[tuple[str, str], ...]  # a name and a text to show
Texts = tuple[str, ...]


class PageParts(Struct, frozen=True, kw_only=True):
    """The parts of the page that come from facts; empty or None if the page leaves one out.

    `same` says in what two answers are the same, `is_exact` that this is all of them.
    """

    figures: Pairs
    commits: Pairs
    test: PermutationTest | None
    tested: bool
    risk: str | None
    settle: str | None
    matrix: matrix.MatrixView | None
    same: str
    is_exact: bool
    within: tuple[tuple[str, int], ...]
    clusters: tuple[Texts, ...]
    histogram: Histogram | None
    shares: tuple[PageShare, ...]
    pairs: tuple[PagePair, ...]
    identity: IdentityFacts | None
    differences: tuple[PageDifference, ...]
    suspects: Texts

    @property
    def decision(self) -> bool:
        """True if there is anything to show about the decision."""
        return bool(self.tested or self.risk or self.settle)


def drawn(facts: Facts) -> PageParts:
    """What there is to draw of `facts`."""
    # Each part by itself: one of an unknown form must not take the page away.
    test = part(facts, "test", PermutationTest)
    view = _matrix(facts, test)
    identity = part(facts, "identity", IdentityFacts)
    within = part(facts, "within", Counts) or {}
    same = _same(facts)
    reasons = part(facts, "differences_by", Counts) or {}
    return PageParts(
        figures=tuple(_figures(facts, view, test)),
        commits=tuple(_commits(facts, identity)),
        test=test,
        tested="test" in facts and view is not None,
        risk=part(facts, "risk", str),
        settle=part(facts, "settle", str),
        matrix=view,
        same=same,
        is_exact=same == _EXACT,
        within=tuple(sorted(within.items())),
        clusters=part(facts, "clusters", tuple[Texts, ...]) or (),
        histogram=_histogram(facts),
        shares=tuple(_shares(reasons)),
        pairs=tuple(_pairs(facts)),
        identity=identity,
        differences=tuple(_differences(identity)),
        suspects=part(facts, "suspects", Texts) or (),
    )


def _matrix(facts: Facts, test: PermutationTest | None) -> matrix.MatrixView | None:
    picture = part(facts, "matrix", AnswerMatrix)
    if picture is None:
        return None
    disputed: Sequence[str] = ()
    if test is not None:
        disputed = test.disputed
    return matrix.view(picture, disputed)


def _same(facts: Facts) -> str:
    """In what answers are the same for the gate; reports of earlier versions have no other gate."""
    for level in part(facts, "levels", tuple[LevelFacts, ...]) or ():
        if level.gate and level.limit:
            return f"in words and tokens, and within {level.limit} in numbers"
        if level.gate:
            return _SAME.get(level.level, _EXACT)
    return _EXACT


def _histogram(facts: Facts) -> Histogram | None:
    divergence = part(facts, "divergence", DivergencePositions)
    if divergence is None:
        return None
    return histogram(divergence)


def _figures(
    facts: Facts, view: matrix.MatrixView | None, test: PermutationTest | None
) -> Iterator[tuple[str, str]]:
    """The few figures that stand large above everything else."""
    if view is None:
        return

    requests = part(facts, "requests", int)
    if not requests:
        requests = view.total + view.left_out
    candidates = len(view.columns) - view.baseline
    yield "requests", f"{requests:,}"
    yield "differing", f"{view.differing:,}"
    if test:
        count = len(test.disputed)
        yield "disputed", f"{count:,}"
    yield "baseline starts", str(view.baseline)
    yield "candidate starts", str(candidates)
    if test:
        yield "p", probability(test.p)


def _commits(facts: Facts, identity: IdentityFacts | None) -> Iterator[tuple[str, str]]:
    """Every fact whose name says that it is a commit; those of the report before the identity's."""
    named: dict[str, Any] = {}
    if identity is not None:
        named.update(identity.facts)
    named.update(facts)
    for name in sorted(named):
        fact = named[name]
        is_commit = "commit" in name.lower()
        if is_commit and isinstance(fact, str):
            title = name.replace("_", " ")
            yield title, fact[:_MOST_OF_A_COMMIT]


def _shares(reasons: Counts) -> Iterator[PageShare]:
    """The reasons that were counted, each with its share of all."""
    # Only what was counted: without any difference the total would be a divisor of 0.
    total = sum(count for count in reasons.values() if count > 0)
    # Known reasons in our order, then unknown ones by name.
    names = dict.fromkeys((*MEANINGS, *sorted(reasons)))
    for name in names:
        count = reasons.get(name, 0)
        if count > 0:
            share = round(100 * count / total, 2)
            meaning = MEANINGS.get(name, "")
            yield PageShare(name, count, share, meaning)


def _pairs(facts: Facts) -> Iterator[PagePair]:
    """The first pairs of answers, as many as a reader looks through."""
    aligned = part(facts, "aligned", tuple[AlignedAnswers, ...]) or ()
    for each in aligned[:_MOST_PAIRS]:
        yield pair(each)


def _differences(identity: IdentityFacts | None) -> Iterator[PageDifference]:
    """What differs between starts that should be alike; nothing without an identity."""
    if identity is None:
        return
    for each in identity.differences:
        yield _difference(each)


def _difference(difference: FactDifference) -> PageDifference:
    """One fact by its values: the starts that agree stand together."""
    starts: dict[str, list[str]] = {}
    for start in sorted(difference.values):
        # By the text on the page: two values with the same text are one to its reader.
        text = value(difference.values[start])
        starts.setdefault(text, []).append(start)
    values = []
    for text, names in starts.items():
        values.append((text, tuple(names)))
    return PageDifference(difference.fact, tuple(values))


def render(report: Report) -> str:
    """`report` as a page of HTML, ending with a newline."""
    # Without the facts, which are most of a large report and reach the page by `drawn` alone.
    shown = cleaned(replace(report, facts={}))
    values = {
        "subject": shown.command,
        "findings": worst_first(shown),
        "links": links(shown.about),
        # From the facts as they are: their control characters are to be shown, not removed.
        "drawn": drawn(report.facts),
    }
    style = sheet("style.css.j2")
    script = sheet("script.js.j2")
    return page("page.html.j2", shown, style=style, script=script, values=values)

# SPDX-License-Identifier: Apache-2.0
"""Two answers to one request, as a page draws them. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.model.facts.answers import AlignedAnswers, LogProbRow, TokenNumber
from ci_doctor.render.html import visible
from ci_doctor.render.html.texts import clipped, clipped_before

# Meanings of hardness, in the order in which a page lists them.
MEANINGS = {
    "near-tie": (
        "the two likeliest tokens were almost equally likely: rounding is enough to swap them"
    ),
    "hard": "the likeliest token was clearly ahead: rounding alone rarely explains it",
    "numbers": "both say the same; only log-probabilities differ",
    "length": "one answer ends where the other goes on, or ends for another reason",
    "missing": "one side gave no answer",
    "unknown": "there are no log-probabilities to tell by",
}
_BEFORE = 320
_SIDE = 900
_POSITIONS = 12
_CHOICES = 5
_TOKEN = 60


class PageSide(Struct, frozen=True):
    """What one start answered from the divergence on."""

    start: str
    segments: tuple[tuple[bool, tuple[visible.TextRun, ...]], ...]
    left_out: int


class PageChoice(Struct, frozen=True):
    """One token that was likely at a position, and its log-probability in nat."""

    token: tuple[visible.TextRun, ...]
    value: float | None


class PagePosition(Struct, frozen=True):
    """The likely tokens of both sides at one position."""

    at: int
    left: tuple[PageChoice, ...]
    right: tuple[PageChoice, ...]
    ulp: float | None


class PagePair(Struct, frozen=True):
    """Two answers to one request, ready to be shown."""

    about: AlignedAnswers
    before: tuple[visible.TextRun, ...]
    sides: tuple[PageSide, PageSide]
    code_points: tuple[str, str] | None
    logprobs: tuple[PagePosition, ...]
    meaning: str


def page_pair(about: AlignedAnswers) -> PagePair:
    """`about`, cut to what a page shows."""
    left, right = visible.differing(about.left[:_SIDE], about.right[:_SIDE])
    # A report of an earlier version may name no starts.
    first, second = about.starts[:2] if len(about.starts) > 1 else ("left", "right")
    before = clipped_before(about.before, _BEFORE)
    return PagePair(
        about=about,
        before=tuple(visible.runs(before, visible.loose_spaces(before))),
        sides=(_side(first, left, about.left), _side(second, right, about.right)),
        code_points=_code_points(left, right),
        logprobs=tuple(_position(row) for row in about.logprobs[:_POSITIONS]),
        meaning=MEANINGS.get(about.hardness, ""),
    )


def _side(start: str, segments: Sequence[visible.Segment], text: str) -> PageSide:
    return PageSide(
        start=start,
        segments=tuple(visible.segment_runs(segments)),
        left_out=max(0, len(text) - _SIDE),
    )


def _position(row: LogProbRow) -> PagePosition:
    return PagePosition(at=row.at, left=_choices(row.left), right=_choices(row.right), ulp=row.ulp)


def _choices(choices: Sequence[TokenNumber]) -> tuple[PageChoice, ...]:
    shown = []
    for text, value in choices[:_CHOICES]:
        token = clipped(text, _TOKEN)
        # Every space is marked: a token often begins with one.
        runs = visible.runs(token, range(len(token)))
        shown.append(PageChoice(tuple(runs), value))
    return tuple(shown)


def _code_points(
    left: Sequence[visible.Segment], right: Sequence[visible.Segment]
) -> tuple[str, str] | None:
    """The code points of the first words that differ, if the two look the same."""
    ours = _first_differing(left)
    theirs = _first_differing(right)
    if not visible.look_alike(ours, theirs):
        return None
    return _spelled(ours), _spelled(theirs)


def _first_differing(side: Sequence[visible.Segment]) -> str:
    for segment in side:
        if segment.differs:
            return segment.text
    return ""


def _spelled(text: str) -> str:
    return clipped(" ".join(map(visible.code_point, text[:12])), 200)

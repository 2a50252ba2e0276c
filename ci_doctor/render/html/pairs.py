# SPDX-License-Identifier: Apache-2.0
"""Pure. Two answers side by side, as the page draws them."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.model.facts.answers import AlignedAnswers, LogProbRow, TokenNumber
from ci_doctor.render.html.texts import clipped, clipped_before
from ci_doctor.render.html.visible import (
    Segment,
    VisibleRun,
    code_point,
    differing,
    look_alike,
    loose_spaces,
    runs,
    segment_runs,
)

# What the hardness of a difference means, in the order in which the kinds are listed.
MEANINGS = {
    "near-tie": "the two likeliest tokens were almost equally likely: rounding can swap them",
    "hard": "the likeliest token was clearly ahead: rounding alone rarely explains it",
    "numbers": "the texts are the same; only log-probabilities differ",
    "length": "one answer ends before the other, or for another reason",
    "missing": "one side gave no answer",
    "unknown": "there are no log-probabilities to decide by",
}
_BEFORE = 320
_SIDE = 900
_TOKEN = 60
_POSITIONS = 12
_CHOICES = 5
_CODE_POINTS = 12


class PageSide(Struct, frozen=True):
    """One start's answer from the first difference on; `left_out` characters are not shown."""

    start: str
    segments: tuple[tuple[bool, tuple[VisibleRun, ...]], ...]
    left_out: int


class PageChoice(Struct, frozen=True):
    """One likely token at a position, and its log-probability."""

    token: tuple[VisibleRun, ...]
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
    before: tuple[VisibleRun, ...]
    sides: tuple[PageSide, PageSide]
    code_points: tuple[str, str] | None
    logprobs: tuple[PagePosition, ...]
    meaning: str


def pair(about: AlignedAnswers) -> PagePair:
    """Two answers as they are drawn."""
    left = about.left[:_SIDE]
    right = about.right[:_SIDE]
    left_segments, right_segments = differing(left, right)
    before = clipped_before(about.before, _BEFORE)
    left_name, right_name = _names(about.starts)
    left_side = _side(left_name, left_segments, len(about.left) - len(left))
    right_side = _side(right_name, right_segments, len(about.right) - len(right))
    meaning = MEANINGS.get(about.hardness, "")
    if about.apart is not None:
        meaning = about.apart.words
    positions = [_position(each) for each in about.logprobs[:_POSITIONS]]
    return PagePair(
        about=about,
        before=tuple(runs(before, loose_spaces(before))),
        sides=(left_side, right_side),
        code_points=_code_points(left_segments, right_segments),
        logprobs=tuple(positions),
        meaning=meaning,
    )


def _names(starts: Sequence[str]) -> tuple[str, str]:
    """The starts of both sides; without them the sides themselves."""
    left, right, *_ = (*starts, "left", "right")
    return left, right


def _side(start: str, segments: Sequence[Segment], left_out: int) -> PageSide:
    return PageSide(start, tuple(segment_runs(segments)), left_out)


def _position(logprobs: LogProbRow) -> PagePosition:
    left = _choices(logprobs.left)
    right = _choices(logprobs.right)
    return PagePosition(logprobs.at, left, right, logprobs.ulp)


def _choices(choices: Sequence[TokenNumber]) -> tuple[PageChoice, ...]:
    shown = []
    for token, value in choices[:_CHOICES]:
        text = clipped(token, _TOKEN)
        # Every space of a token is marked: " the" and "the" are two tokens.
        everywhere = range(len(text))
        marked = tuple(runs(text, everywhere))
        shown.append(PageChoice(marked, value))
    return tuple(shown)


def _code_points(left: Sequence[Segment], right: Sequence[Segment]) -> tuple[str, str] | None:
    """The code points of the first words that differ, if they look the same."""
    left_text = _first_differing(left)
    right_text = _first_differing(right)
    if not look_alike(left_text, right_text):
        return None
    return _listed(left_text), _listed(right_text)


def _first_differing(side: Sequence[Segment]) -> str:
    for segment in side:
        if segment.differs:
            return segment.text
    return ""


def _listed(text: str) -> str:

    points = map(code_point, text[:_CODE_POINTS])
    return " ".join(points)

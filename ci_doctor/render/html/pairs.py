# SPDX-License-Identifier: Apache-2.0
"""Pure. Two answers side by side, as the page draws them."""

import re
import unicodedata
from collections.abc import Container, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from ci_doctor.model.facts.correctness import AlignedAnswers, LogProbRow, TokenNumber
from ci_doctor.render.html.templating import clipped, clipped_before

_LOOSE_SPACES = re.compile(r"(?<= ) | (?= )|^ | $", re.MULTILINE)
_WORDS = re.compile(r"\s+|\w+|.", re.DOTALL)
_WORDS_COMPARED = 400  # SequenceMatcher takes quadratic time
_CLASSES = {"\n": "nl", "\t": "tab"}
_NAMES = {"\n": "line feed", "\t": "tab", " ": "space", "\u00a0": "no-break space"}


class VisibleRun(Struct, frozen=True):
    """`text` to be shown.

    `mark` is the CSS class of a mark ("" for plain text), `title` the name of what it stands for.
    """

    text: str
    mark: str = ""
    title: str = ""


class Segment(Struct, frozen=True):
    """A piece of one side of a comparison; `differs` from the other side."""

    text: str
    differs: bool


def loose_spaces(text: str) -> frozenset[int]:
    """The positions of spaces that are easily overlooked: at the ends of a line, and in groups."""
    positions = map(re.Match.start, _LOOSE_SPACES.finditer(text))
    return frozenset(positions)


def runs(text: str, spaces: Container[int]) -> Iterator[VisibleRun]:
    r"""`text` as plain runs, and marks for characters that are not seen or mislead a reader.

    Of the spaces, those at the positions `spaces` are marked. `\n` and tab keep their effect behind
    their mark. Control, format (zero width, bidirectional), private and unassigned characters, and
    surrogates are shown as code points: none of them reaches the page.
    """
    plain = ""
    for position, character in enumerate(text):
        run = _mark(character, shown=position in spaces)
        if run is None:
            plain += character
            continue
        if plain:
            yield VisibleRun(plain)
            plain = ""
        yield run
    if plain:
        yield VisibleRun(plain)


def _mark(character: str, *, shown: bool) -> VisibleRun | None:
    if character == " " and shown:
        return VisibleRun(character, "sp", "space")
    if character.isprintable():
        return None
    if character in _CLASSES:
        return VisibleRun(character, _CLASSES[character], _NAMES[character])
    # Unicode has no names for controls.
    name = _NAMES.get(character) or unicodedata.name(character, "").lower()
    return VisibleRun(code_point(character), "cp", name or "control character")


def segment_runs(side: Sequence[Segment]) -> Iterator[tuple[bool, tuple[VisibleRun, ...]]]:
    """Each segment of one side, and whether it differs: then all of its spaces are marked."""
    # Of the whole side: a space at the end of a segment is not at the end of a line.
    whole = "".join(segment.text for segment in side)
    loose = loose_spaces(whole)
    begin = 0
    for segment in side:
        length = len(segment.text)
        spaces: Container[int] = range(length)
        if not segment.differs:
            # Positions in the side become positions in the segment.
            spaces = {position - begin for position in loose}
        marked = runs(segment.text, spaces)
        yield segment.differs, tuple(marked)
        begin += length


def code_point(character: str) -> str:
    """`U+200B`."""
    return f"U+{ord(character):04X}"


def differing(left: str, right: str) -> tuple[list[Segment], list[Segment]]:
    """Both sides in segments, word by word: what only one of them has `differs`.

    Only the first 400 words of each side are compared, which is more than a page shows; the rest
    counts as differing.
    """
    left_words = _words(left)
    right_words = _words(right)
    left_side: list[Segment] = []
    right_side: list[Segment] = []
    # Without autojunk, which would take the frequent words of a long text for noise.
    matcher = SequenceMatcher(None, left_words, right_words, autojunk=False)
    for operation, start, end, other_start, other_end in matcher.get_opcodes():
        differs = operation != "equal"
        # An insertion has nothing on the left, a deletion nothing on the right.
        if start < end:
            text = "".join(left_words[start:end])
            left_side.append(Segment(text, differs))
        if other_start < other_end:
            text = "".join(right_words[other_start:other_end])
            right_side.append(Segment(text, differs))
    return left_side, right_side


def _words(text: str) -> list[str]:
    words: list[str] = []
    for match in _WORDS.finditer(text):
        # The rest stays as one word, so that no text is lost.
        if len(words) == _WORDS_COMPARED:
            rest = text[match.start() :]
            return [*words, rest]
        words.append(match.group())
    return words


def look_alike(left: str, right: str) -> bool:
    """True for two texts that differ and that a reader would take for the same."""
    if left == right:
        return False
    # NFKC folds what looks alike by design: full-width forms, ligatures, composed letters.
    left_form = unicodedata.normalize("NFKC", left)
    right_form = unicodedata.normalize("NFKC", right)
    return left_form == right_form


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

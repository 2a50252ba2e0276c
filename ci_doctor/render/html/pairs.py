# SPDX-License-Identifier: Apache-2.0
"""Pure. Two answers side by side, as the page draws them."""

import re
import unicodedata
from collections.abc import Container, Iterator, Sequence
from difflib import SequenceMatcher

from ci_doctor.model.facts.correctness import AlignedAnswers, TokenNumber
from ci_doctor.render.html.templating import Shown, clipped, clipped_before

_LOOSE_SPACES = re.compile(r"(?<= ) | (?= )|^ | $", re.MULTILINE)
_WORDS = re.compile(r"\s+|\w+|.", re.DOTALL)
_WORDS_COMPARED = 400  # SequenceMatcher takes quadratic time
_CLASSES = {"\n": "nl", "\t": "tab"}
_NAMES = {"\n": "line feed", "\t": "tab", " ": "space", "\u00a0": "no-break space"}

VisibleRun = tuple[str, str, str]  # text, the CSS class of a mark ("" for plain text), its name
Segment = tuple[str, bool]  # a piece of one side of a comparison; whether it differs from the other


def loose_spaces(text: str) -> set[int]:
    """The positions of spaces that are easily overlooked: at the ends of a line, and in groups."""
    return {match.start() for match in _LOOSE_SPACES.finditer(text)}


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
            yield plain, "", ""
            plain = ""
        yield run
    if plain:
        yield plain, "", ""


def _mark(character: str, *, shown: bool) -> VisibleRun | None:
    if character == " " and shown:
        return character, "sp", "space"
    if character.isprintable():
        return None
    if character in _CLASSES:
        return character, _CLASSES[character], _NAMES[character]
    # Unicode has no names for controls.
    name = _NAMES.get(character) or unicodedata.name(character, "").lower()
    return _code_point(character), "cp", name or "control character"


def segment_runs(side: Sequence[Segment]) -> Iterator[tuple[bool, list[VisibleRun]]]:
    """Each segment of one side, and whether it differs: then all of its spaces are marked."""
    # Of the whole side: a space at the end of a segment is not at the end of a line.
    loose = loose_spaces("".join(text for text, _ in side))
    begin = 0
    for text, differs in side:
        # Positions in the side become positions in the segment.
        spaces = range(len(text)) if differs else {position - begin for position in loose}
        yield differs, list(runs(text, spaces))
        begin += len(text)


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def differing(left: str, right: str) -> tuple[list[Segment], list[Segment]]:
    """Both sides in segments, word by word: what only one of them has `differs`.

    Only the first 400 words of each side are compared, which is more than a page shows; the rest
    counts as differing.
    """
    sides = (_words(left), _words(right))
    segments: tuple[list[Segment], list[Segment]] = ([], [])
    # Without autojunk, which would take the frequent words of a long text for noise.
    for operation, *places in SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
        for words, side, (start, end) in zip(
            sides, segments, (places[:2], places[2:]), strict=True
        ):
            # An insertion has nothing on the left, a deletion nothing on the right.
            if start < end:
                side.append(("".join(words[start:end]), operation != "equal"))
    return segments


def _words(text: str) -> list[str]:
    words = [match.group() for match in _WORDS.finditer(text)]
    # The rest stays as one word, so that no text is lost.
    rest = "".join(words[_WORDS_COMPARED:])
    return [*words[:_WORDS_COMPARED], *([rest] if rest else [])]


def look_alike(left: str, right: str) -> bool:
    """True for two texts that differ and that a reader would take for the same."""
    # NFKC folds what looks alike by design: full-width forms, ligatures, composed letters.
    forms = {unicodedata.normalize("NFKC", text) for text in (left, right)}
    return left != right and len(forms) == 1


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


def pair(about: AlignedAnswers) -> Shown:
    """Two answers to one request as they are drawn, from the first difference on.

    Without the names of the starts the sides have their own. `code_points` are those of the first words that
    differ, if they look the same.
    """
    names = (*about.starts, "left", "right")
    texts = (about.left, about.right)
    segments = differing(about.left[:_SIDE], about.right[:_SIDE])
    before = clipped_before(about.before, _BEFORE)
    left, right = (next((text for text, differs in side if differs), "") for side in segments)
    return {
        "about": about,
        "before": list(runs(before, loose_spaces(before))),
        "sides": [
            {
                "start": name,
                "segments": list(segment_runs(side)),
                "left_out": len(text) - len(text[:_SIDE]),
            }
            for name, text, side in zip(names, texts, segments, strict=False)
        ],
        "code_points": (_listed(left), _listed(right)) if look_alike(left, right) else None,
        "logprobs": [
            {
                "at": each.at,
                "left": _choices(each.left),
                "right": _choices(each.right),
                "ulp": each.ulp,
            }
            for each in about.logprobs[:_POSITIONS]
        ],
        "meaning": MEANINGS.get(about.hardness, "") if about.apart is None else about.apart.words,
    }


def _choices(choices: Sequence[TokenNumber]) -> list[Shown]:
    """The likely tokens at a position, and their log-probabilities."""
    shown = []
    for token, value in choices[:_CHOICES]:
        text = clipped(token, _TOKEN)
        # Every space of a token is marked: " the" and "the" are two tokens.
        shown.append({"token": list(runs(text, range(len(text)))), "value": value})
    return shown


def _listed(text: str) -> str:
    return " ".join(map(_code_point, text[:_CODE_POINTS]))

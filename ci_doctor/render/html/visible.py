# SPDX-License-Identifier: Apache-2.0
"""Text with everything in it that nobody sees: white space, controls and invisible characters become marks. Pure."""

import re
import unicodedata
from collections.abc import Container, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

_LOOSE_SPACES = re.compile(r"(?<= ) | (?= )|^ | $", re.MULTILINE)
_WORDS = re.compile(r"\s+|\w+|.", re.DOTALL)
_WORDS_COMPARED = 400
_NAMES = {"\n": "line feed", "\t": "tab", " ": "space", "\u00a0": "no-break space"}


class TextRun(Struct, frozen=True):
    """`text` to be shown; `mark` is the CSS class of a mark ("" for plain text), `title` the name of what it stands for."""

    text: str
    mark: str = ""
    title: str = ""


class Segment(Struct, frozen=True):
    """A piece of one side of a comparison; `differs` from the other side."""

    text: str
    differs: bool


def loose_spaces(text: str) -> frozenset[int]:
    """Where a space is easily overlooked: at the ends of a line, and beside another one."""
    return frozenset(match.start() for match in _LOOSE_SPACES.finditer(text))


def runs(text: str, spaces: Container[int]) -> Iterator[TextRun]:
    r"""`text` in order: plain runs, and a mark for each character that a reader would not see or could be misled by.

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
            yield TextRun(plain)
            plain = ""
        yield run
    if plain:
        yield TextRun(plain)


def _mark(character: str, *, shown: bool) -> TextRun | None:
    if character == " ":
        return TextRun(character, "sp", "space") if shown else None
    if character.isprintable():
        return None
    if character in "\n\t":
        return TextRun(character, "nl" if character == "\n" else "tab", _NAMES[character])
    name = _NAMES.get(character) or unicodedata.name(character, "").lower() or "control character"
    return TextRun(code_point(character), "cp", name)


def segment_runs(side: Sequence[Segment]) -> Iterator[tuple[bool, tuple[TextRun, ...]]]:
    """Each segment of one side with whether it differs; where it does, all of its spaces are marked."""
    loose = loose_spaces("".join(segment.text for segment in side))
    begin = 0
    for segment in side:
        length = len(segment.text)
        spaces = range(length) if segment.differs else {position - begin for position in loose}
        yield segment.differs, tuple(runs(segment.text, spaces))
        begin += length


def code_point(character: str) -> str:
    """`U+200B`."""
    return f"U+{ord(character):04X}"


def differing(left: str, right: str) -> tuple[list[Segment], list[Segment]]:
    """Both sides in segments, word by word: what only one of them has `differs`.

    Only the first 400 words of each side are compared, which is more than a page shows; the rest
    counts as differing.
    """
    ours, theirs = _words(left), _words(right)
    sides: tuple[list[Segment], list[Segment]] = ([], [])
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for operation, start, end, other_start, other_end in matcher.get_opcodes():
        for side, piece in zip(
            sides, (ours[start:end], theirs[other_start:other_end]), strict=True
        ):
            if piece:
                side.append(Segment("".join(piece), operation != "equal"))
    return sides


def _words(text: str) -> list[str]:
    words: list[str] = []
    for match in _WORDS.finditer(text):
        if len(words) == _WORDS_COMPARED:
            return [*words, text[match.start() :]]
        words.append(match.group())
    return words


def look_alike(left: str, right: str) -> bool:
    """True for two texts that differ and that a reader would take for the same."""
    return left != right and unicodedata.normalize("NFKC", left) == unicodedata.normalize(
        "NFKC", right
    )

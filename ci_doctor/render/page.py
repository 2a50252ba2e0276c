# SPDX-License-Identifier: Apache-2.0
"""Pure. A page of a bounded number of bytes, made of pieces that are shown whole or not at all."""

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from ci_doctor.render.formatting import amount, size

_LAST = 1 << 30  # a place after all that are below the same piece
_NOTE_BYTES = 220  # six counts of up to seven digits with their nouns


class PagePiece(NamedTuple):
    """Some lines of a page.

    `place` is the order in which they are read: (2, 5) before (2, 5, 0) before (2, 6). `rank` says
    what goes in first if not everything fits. `tail` closes `text` after everything at a place
    below its own. `noun` is what a reader misses without the piece, `weight` how many bytes of
    evidence.
    """

    place: tuple[int, ...]
    rank: int
    text: str
    tail: str = ""
    noun: str = ""
    weight: int = 0

    def size(self) -> int:
        """Bytes on the page, line ends included."""
        count = len(self.text.encode()) + 1
        if self.tail:
            count += len(self.tail.encode()) + 1
        return count


def page(head: str, pieces: Iterable[PagePiece], max_bytes: int) -> str:
    """`head` and as many of `pieces` as fit in `max_bytes` bytes of UTF-8, in reading order.

    Left out are the pieces of the highest ranks, within a rank the last ones; a line at the end
    counts them. `head` and that line (at most 220 bytes) are there always. Ends with a newline.
    """
    ranked = sorted(pieces, key=attrgetter("rank"))
    # sorted() is stable: within a rank the pieces keep their order.
    room = max_bytes - len(head.encode()) - 1
    kept = _fitting(ranked, room)
    if len(kept) < len(ranked):
        # The note is needed only if pieces are left out, and it takes room itself.
        kept = _fitting(ranked, room - _NOTE_BYTES)
    parts = [head, *_in_reading_order(kept)]
    missing = ranked[len(kept) :]
    if missing:
        parts.append(_note(missing))
    return "\n".join(parts) + "\n"


def _fitting(ranked: list[PagePiece], room: int) -> list[PagePiece]:
    # The first that does not fit ends it: a later, smaller one would stand without those before it.
    for count, piece in enumerate(ranked):
        room -= piece.size()
        if room < 0:
            return ranked[:count]
    return ranked


def _in_reading_order(pieces: list[PagePiece]) -> list[str]:
    placed = []
    for piece in pieces:
        placed.append((piece.place, piece.text))
        if piece.tail:
            end = (*piece.place, _LAST)
            placed.append((end, piece.tail))
    placed.sort()
    return [text for _, text in placed]


def _note(missing: list[PagePiece]) -> str:
    """A line that counts what a reader misses, by its nouns in the order of the ranks."""
    counts: Counter[str] = Counter()
    weight = 0
    for piece in missing:
        weight += piece.weight
        # A piece of evidence has no noun: it counts by its bytes.
        if piece.noun:
            counts[piece.noun] += 1
    phrases = [amount(count, noun) for noun, count in counts.items()]
    if weight:
        phrases.append(f"{size(weight)} of evidence")
    listed = ", ".join(phrases)
    return f"\n*Left out: {listed}; see report.json*"

# SPDX-License-Identifier: Apache-2.0
"""Reads two files line against line: the fast way, for one start a side in the same order."""

import re
from collections.abc import Iterator
from itertools import zip_longest

from msgspec import Struct

from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.pieces import HEADS, ID, alike
from ci_doctor.correctness.collected.sources import Source, SourcePosition, lines
from ci_doctor.correctness.collected.unreadable_lines import AnswerCheck

_Pair = tuple[SourcePosition, SourcePosition]


class PairedLines(Struct, frozen=True, kw_only=True):
    """Two files with the same requests in the same lines.

    `ids` are in the order of the lines. `odd` leads from the 0-based index of each line that is not
    known to be the same answer to its two positions. If `by_line`, the files have no id in common,
    and `ids` are the left one's.
    """

    ids: list[str]
    odd: dict[int, _Pair]
    by_line: bool


def pair_lines(left: Source, right: Source) -> PairedLines | None:
    """The two files as pairs of lines; None if they must be read one after the other.

    Every line must begin as expected. Every sample of ours must be of one start and one pass a
    side, and have the id of the one beside it. No id may come twice.
    """
    if left.form is not right.form or left.form not in HEADS:
        return None
    check = AnswerCheck(left)
    try:
        comparison = _compare(left, right)
        if comparison is None:
            return None
        return _paired(comparison, check.unreadable(), left, right)
    finally:
        check.close()


class _LineComparison(Struct):
    """The ids of both files, line by line, and the 0-based indexes of the pairs that differ."""

    names: list[bytes]
    others: list[bytes]
    differing: set[int]


def _compare(left: Source, right: Source) -> _LineComparison | None:
    form = left.form
    if form is SampleFormat.OURS:
        return _compare_samples(left, right)
    match = HEADS[form].match
    names: list[bytes] = []
    others: list[bytes] = []
    differing: set[int] = set()
    # A hundred thousand lines a second go through here: no call that can be avoided, and no
    # attribute.
    for one, other in zip_longest(lines(left.path), lines(right.path), fillvalue=b""):
        mine = match(one)
        theirs = match(other)
        if mine is None or theirs is None:
            return None
        if one[mine.end() :] != other[theirs.end() :]:
            differing.add(len(names))
        names.append(mine[ID])
        others.append(theirs[ID])
    return _LineComparison(names=names, others=others, differing=differing)


def _compare_samples(left: Source, right: Source) -> _LineComparison | None:
    """As `_compare`, for our own samples: all of one start and of the first pass, a side."""
    form = left.form
    match = HEADS[form].match
    names: list[bytes] = []
    others: list[bytes] = []
    differing: set[int] = set()
    first: tuple[bytes, bytes] | None = None
    for one, other in zip_longest(lines(left.path), lines(right.path), fillvalue=b""):
        mine = match(one)
        theirs = match(other)
        if mine is None or theirs is None:
            return None
        # All that stands before the id: arm, start and pass.
        starts = one[: mine.start(ID)], other[: theirs.start(ID)]
        first = first or _first(mine, theirs, starts)
        if starts != first:
            return None
        if not alike(form, one, mine.end(), other, theirs.end()):
            differing.add(len(names))
        names.append(mine[ID])
        others.append(theirs[ID])
    return _LineComparison(names=names, others=others, differing=differing)


def _first(
    mine: re.Match[bytes], theirs: re.Match[bytes], starts: tuple[bytes, bytes]
) -> tuple[bytes, bytes] | None:
    """The two starts that all lines must be of; None if the first lines are of a later pass."""
    return starts if mine["pass"] == theirs["pass"] == b"1" else None


def _paired(
    comparison: _LineComparison, unreadable: set[int], left: Source, right: Source
) -> PairedLines | None:
    names = comparison.names
    others = comparison.others
    unique = set(names)
    if len(unique) < len(names):
        return None
    # Random ids have nothing in common. One common id names a request, and the order proves little.
    by_line = left.form.has_random_ids and unique.isdisjoint(others)
    if names != others:
        all_unique = len(set(others)) == len(others)
        if not by_line or not all_unique:
            return None
    # A line that is the same on both sides and holds no answer proves nothing, so it is odd, too.
    odd = sorted(comparison.differing | unreadable)
    pairs = zip(_positions(left, odd), _positions(right, odd), strict=True)
    return PairedLines(
        ids=[name.decode("ascii") for name in names],
        odd=dict(zip(odd, pairs, strict=True)),
        by_line=by_line,
    )


def _positions(source: Source, indexes: list[int]) -> Iterator[SourcePosition]:
    """Where the lines with these 0-based indexes, in ascending order, are in the file."""
    # Offsets are not kept while lines are compared: nearly always there is no index to look for.
    if not indexes:
        return
    wanted = iter(indexes)
    following: int | None = next(wanted)
    offset = 0
    for index, line in enumerate(lines(source.path)):
        if index == following:
            yield SourcePosition(source=source, offset=offset, length=len(line), line=index + 1)
            following = next(wanted, None)
            if following is None:
                return
        offset += len(line)

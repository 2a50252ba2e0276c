# SPDX-License-Identifier: Apache-2.0
"""Reads two files side by side, line against line: the fast way, for one start a side in the same order."""

import re
from collections.abc import Iterator
from itertools import zip_longest

from msgspec import Struct

from ci_doctor.correctness.collected.formats import Format
from ci_doctor.correctness.collected.pieces import HEADS, ID, alike
from ci_doctor.correctness.collected.sources import Place, Source, lines
from ci_doctor.correctness.collected.unreadable_lines import Soundness


class Steps(Struct, frozen=True, kw_only=True):
    """Two files that ran in step: the ids in order, and the places of the lines that are not known to be the same.

    Where `by_line`, the two files have no id in common, and `ids` are the left one's.
    """

    ids: list[str]
    odd: dict[int, tuple[Place, Place]]
    by_line: bool


def in_step(left: Source, right: Source) -> Steps | None:
    """None where the two files do not run in step, and must be read one after the other.

    Every line must begin as expected, every sample of ours be of one start and one pass a side and have the id of the one
    beside it, no id come twice.
    """
    if left.form is not right.form or left.form not in HEADS:
        return None
    soundness = Soundness(left)
    try:
        found = _walk(left, right)
        return _aligned(found, soundness.unsound(), left, right) if found else None
    finally:
        soundness.close()


class _Walk(Struct):
    """The ids of both files, line by line, and the 0-based indexes of the pairs that are not alike."""

    names: list[bytes]
    others: list[bytes]
    apart: set[int]


def _walk(left: Source, right: Source) -> _Walk | None:
    form, match, ours = left.form, HEADS[left.form].match, left.form is Format.OURS
    names: list[bytes] = []
    others: list[bytes] = []
    apart: set[int] = set()
    first: tuple[bytes, bytes] | None = None
    # A hundred thousand lines a second go through here, so nothing is called that need not be.
    for one, other in zip_longest(lines(left.path), lines(right.path), fillvalue=b""):
        mine, theirs = match(one), match(other)
        if mine is None or theirs is None:
            return None
        at, at_other = mine.end(), theirs.end()
        if ours:
            starts = one[: mine.start(ID)], other[: theirs.start(ID)]
            first = first or (starts if _first_pass(mine) and _first_pass(theirs) else None)
            if starts != first:
                return None
            same = alike(form, one, at, other, at_other)
        else:
            same = one[at:] == other[at_other:]
        if not same:
            apart.add(len(names))
        names.append(mine[ID])
        others.append(theirs[ID])
    return _Walk(names=names, others=others, apart=apart)


def _first_pass(found: re.Match[bytes]) -> bool:
    return found["pass"] == b"1"


def _aligned(walk: _Walk, unsound: set[int], left: Source, right: Source) -> Steps | None:
    names, others = walk.names, walk.others
    known = set(names)
    by_line = left.form.has_random_ids and known.isdisjoint(others)
    if len(known) < len(names) or not (
        names == others or (by_line and len(set(others)) == len(others))
    ):
        return None
    odd = sorted(walk.apart | unsound)
    places = zip(_places(left, odd), _places(right, odd), strict=True)
    return Steps(
        ids=[name.decode("ascii") for name in names],
        odd=dict(zip(odd, places, strict=True)),
        by_line=by_line,
    )


def _places(source: Source, indexes: list[int]) -> Iterator[Place]:
    """Where the lines with these 0-based indexes stand, in ascending order."""
    if not indexes:
        return
    wanted, offset = iter(indexes), 0
    following: int | None = next(wanted)
    for index, line in enumerate(lines(source.path)):
        if index == following:
            yield Place(source=source, offset=offset, length=len(line), line=index + 1)
            following = next(wanted, None)
            if following is None:
                return
        offset += len(line)

# SPDX-License-Identifier: Apache-2.0
"""The first item (vector, score, label, rank) in which two answers differ, and how far. Pure."""

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.excerpts import as_json
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.load.answer_items import ItemKind, item_numbers, items_of
from ci_doctor.load.choices import ulp_distance
from ci_doctor.model.facts.answers import NumbersApart

_Item = Mapping[str, Any]
# As a report names them: the keys of an item that stand for words, and the numbers of each kind.
_WORDS = {"label": "label", "index": "rank", "document": "document of rank"}
_NUMBERS = {
    ItemKind.VECTOR: "vector",
    ItemKind.LABEL: "probabilities",
    ItemKind.SCORE: "score",
    ItemKind.RANK: "score of rank",
}


class ItemDifference(Struct, frozen=True, kw_only=True):
    """The item number `index` of both answers; `field` names it, `before` what both share."""

    field: str
    index: int
    hardness: Hardness
    before: str = ""
    left: str = ""
    right: str = ""
    apart: NumbersApart | None = None


def item_difference(left: Mapping[str, Any], right: Mapping[str, Any]) -> ItemDifference | None:
    """The first item that differs; None if every item is the same."""
    noun = _NUMBERS.get(left.get("kind", ""), "numbers")
    ours = items_of(left) or []
    theirs = items_of(right) or []
    is_single = len(ours) == len(theirs) == 1
    for index, (one, other) in enumerate(zip_longest(ours, theirs)):
        if one is None or other is None:
            return ItemDifference(field=f"items[{index}]", index=index, hardness=Hardness.MISSING)
        # Nearly every request has one text: its number would only be in the way.
        number = "" if is_single else f" {index}"
        difference = _of_words(one, other, index, number)
        if difference is None:
            difference = _of_numbers(one, other, index, f"{noun}{number}")
        if difference is not None:
            return difference
    return None


def _of_words(one: _Item, other: _Item, index: int, number: str) -> ItemDifference | None:
    for key, noun in _WORDS.items():
        if one.get(key) != other.get(key):
            return ItemDifference(
                field=f"{noun}{number}",
                index=index,
                hardness=Hardness.UNKNOWN,
                left=_text(one, key),
                right=_text(other, key),
            )
    return None


def _of_numbers(one: _Item, other: _Item, index: int, name: str) -> ItemDifference | None:
    ours = item_numbers(one)
    theirs = item_numbers(other)
    if len(ours) != len(theirs):
        return ItemDifference(
            field=name,
            index=index,
            hardness=Hardness.LENGTH,
            left=f"{len(ours):,} numbers",
            right=f"{len(theirs):,} numbers",
        )
    apart = numbers_apart(ours, theirs)
    if apart is None:
        return None
    before = ""
    if apart.count > 1:
        size = f"of {apart.count:,}"
        name = f"{name} ({size} numbers)" if name[-1].isdigit() else f"{name} {size}"
        before = f"number {apart.first}: "
    return ItemDifference(
        field=name,
        index=index,
        hardness=Hardness.NUMBERS,
        before=before,
        # Nine digits tell any two float32 apart.
        left=f"{ours[apart.first]:.9g}",
        right=f"{theirs[apart.first]:.9g}",
        apart=apart,
    )


def _text(item: _Item, key: str) -> str:
    value = item.get(key)
    text = value if isinstance(value, str) else as_json(value)
    if key == "document":
        return text
    # The numbers tell whether it was close.
    numbers = " ".join(f"{number:.6g}" for number in item_numbers(item)[:4])
    return f"{text} ({numbers})"


def numbers_apart(left: Sequence[float], right: Sequence[float]) -> NumbersApart | None:
    """How far two lists of as many finite numbers lie apart; None if all are bit for bit equal."""
    places = []
    for place, (one, other) in enumerate(zip(left, right, strict=True)):
        # 0.0 and -0.0 are equal to Python, and two different answers.
        if one != other or math.copysign(1.0, one) != math.copysign(1.0, other):
            places.append(place)
    if not places:
        return None
    return NumbersApart(
        count=len(left),
        places=len(places),
        first=places[0],
        largest=max(abs(left[place] - right[place]) for place in places),
        ulp=max(ulp_distance(left[place], right[place]) for place in places),
        cosine=_cosine_distance(left, right),
    )


def _cosine_distance(left: Sequence[float], right: Sequence[float]) -> float | None:
    """1 - cos of the angle between two vectors; None for single numbers and without a direction."""
    ours = math.hypot(*left)
    theirs = math.hypot(*right)
    if len(left) == 1 or not ours or not theirs:
        return None
    # Not 1 - cos: that would lose all digits of a small angle.
    squares = [(one / ours - other / theirs) ** 2 for one, other in zip(left, right, strict=True)]
    return math.fsum(squares) / 2

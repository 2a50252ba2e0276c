# SPDX-License-Identifier: Apache-2.0
"""Pure. The canonical form of answers that are no text: vectors, labels, scores, ranked documents.

`{"kind": "vector", "items": [{"index": 0, "float32": "…"}, …]}`. An item holds its numbers as
`numbers` (a list), or, if they are many, as `float32` (base64 of little-endian float32), and beside
them what stands for words: `index`, `label`, `document`. A protocol makes this form; all that reads
it is here, so that a new protocol needs no other place.
"""

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.float32 import nearest

_NUMBER_TYPES = {int, float}
_NUMBERS = frozenset({"numbers", "float32"})

_FAR = 2.0**20


class ItemKind(StrEnum):
    """What an item of an answer is."""

    VECTOR = "vector"
    LABEL = "label"
    SCORE = "score"
    RANK = "rank"


# Of these the index is the place in the request, and there is nothing to read but numbers.
_WORDLESS = frozenset({ItemKind.VECTOR, ItemKind.SCORE})


def items_of(output: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The items of a canonical output; None if it is of the other form, `choices`."""
    return output.get("items")


def is_wordless(output: Mapping[str, Any]) -> bool:
    """Whether its items are numbers alone."""
    return output.get("kind") in _WORDLESS


def item_numbers(item: Mapping[str, Any]) -> Sequence[float]:
    """The numbers of one item, each a float32. Raises NotAnAnswerError if they cannot be read."""
    packed = item.get("float32")
    if packed is None:
        numbers: list[float] = item.get("numbers", [])
        return numbers
    return unpacked(packed)


def check_items(output: Mapping[str, Any]) -> None:
    """Raises NotAnAnswerError for an `output` that no protocol can have made.

    It may have been written by another program.
    """
    items = output.get("items")
    # As text: what another program wrote there may have no hash.
    if str(output.get("kind")) not in set(ItemKind):
        raise NotAnAnswerError("the `kind` of the answer is unknown")
    if not isinstance(items, list) or not items:
        raise NotAnAnswerError("no `items` in the answer")
    for item in items:
        if not isinstance(item, dict) or type(item.get("index")) is not int:
            raise NotAnAnswerError("an item of the answer has no `index`")
        packed_numbers = item.get("float32")
        if packed_numbers is None:
            checked(item.get("numbers"), "an item of the answer")
        elif not isinstance(packed_numbers, str):
            raise NotAnAnswerError("`float32` of an item is no text")
        else:
            unpacked(packed_numbers)


def is_zero(output: Mapping[str, Any]) -> bool:
    """Whether an output holds vectors, and nothing but zeros in them."""
    if output.get("kind") != ItemKind.VECTOR:
        return False
    items = items_of(output) or ()
    return not any(any(item_numbers(item)) for item in items)


def with_other_item(output: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A copy of an output whose first item is another one at each level; `number` chooses which.

    A ranking gets another document, a label another text, a vector and a score another first
    number, far from any that a model gives.
    """
    first, *rest = output["items"]
    other = dict(first)
    kind = output.get("kind")
    if kind == ItemKind.RANK:
        other["index"] = number
    elif kind == ItemKind.LABEL:
        other["label"] = f"{first.get('label')} {number}"
    else:
        _, *numbers = item_numbers(first)
        other = {"index": first["index"], "numbers": [_FAR + number, *numbers]}
    return {**output, "items": [other, *rest]}


def item_text(item: Mapping[str, Any]) -> str:
    """One item for people: its label or its place, and each number in full."""
    # Nine digits tell any two float32 apart.
    numbers = " ".join(f"{number:.9g}" for number in item_numbers(item))
    name = item.get("label")
    if name is None:
        name = item.get("index")
    return f"{name}: {numbers}"


def words_of_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item with the count of its numbers instead of them."""
    words = {key: value for key, value in item.items() if key not in _NUMBERS}
    words["count"] = len(item_numbers(item))
    return words


def packed(numbers: Sequence[float]) -> str:
    """Numbers as base64 of little-endian float32."""
    values = array("f", numbers)
    if sys.byteorder == "big":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode("ascii")


def unpacked(text: str) -> list[float]:
    """The numbers of a base64 text of little-endian float32.

    Raises NotAnAnswerError for anything else, and for NaN and infinity, which no model may give.
    """
    values = array("f")
    try:
        values.frombytes(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error) as error:
        raise NotAnAnswerError(f"a vector is not base64 of float32: {error}") from error
    if sys.byteorder == "big":
        values.byteswap()
    numbers = values.tolist()
    _check_finite(numbers)
    return numbers


def checked(values: Any, what: str) -> list[float]:
    """A list of JSON numbers as float32. Raises NotAnAnswerError; `what` names it in the sentence.

    null is what servers write for NaN.
    """
    if not isinstance(values, list):
        raise NotAnAnswerError(f"{what} is not a list of numbers")
    # All types at once: a loop over a long vector would take most of the time. True is an int.
    if not set(map(type, values)) <= _NUMBER_TYPES:
        raise NotAnAnswerError(f"{what} holds {_first_other(values)}")
    try:
        numbers = nearest(values)
    except OverflowError as error:
        raise NotAnAnswerError(f"{what} holds a number beyond all doubles") from error
    _check_finite(numbers)
    return numbers


def _first_other(values: list[Any]) -> str:
    for place, value in enumerate(values):
        if value is None:
            return f"null (NaN) at position {place}"
        if type(value) not in _NUMBER_TYPES:
            return f"no number at position {place}"
    return "no number"


def _check_finite(numbers: Sequence[float]) -> None:
    if not all(map(math.isfinite, numbers)):
        raise NotAnAnswerError("a vector holds NaN or infinity")

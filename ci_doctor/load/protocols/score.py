# SPDX-License-Identifier: Apache-2.0
"""Pure. `/score`: how similar two texts are, a number for each pair.

vLLM answers with `data`, objects with `index` and `score`; SGLang with `scores`, a list of numbers
for each item, one for each token that the request asks for.
"""

from collections.abc import Mapping
from typing import Any

from ci_doctor.load.answer_items import ItemKind, checked
from ci_doctor.load.canonical import Canonical
from ci_doctor.load.item_answers import Item, canonical_items, in_order, listed, place_of
from ci_doctor.load.protocols.protocol import Protocol, RequestBody

# The two sides of the pairs, by each name that vLLM and SGLang give them.
_SIDES = ("text_1", "text_2", "queries", "documents", "query", "items", "data_1", "data_2")


def read(value: Any, body: RequestBody) -> Canonical:
    """The scores of an answer, in the order of the pairs."""
    items = in_order(_items(value), _expected(body))
    return canonical_items(ItemKind.SCORE, items, value)


def _items(value: Any) -> list[Item]:
    scores = value.get("scores") if isinstance(value, dict) else None
    items = []
    if isinstance(scores, list) and scores:
        for at, score in enumerate(scores):
            items.append(_item(at, score))
        return items
    for at, part in enumerate(listed(value, "data")):
        items.append(_item(place_of(part, at), part.get("score")))
    return items


def _item(index: int, score: Any) -> Item:
    # One number, or one for each label token.
    numbers = score if isinstance(score, list) and score else [score]
    return {"index": index, "numbers": checked(numbers, f"score {index}")}


def _expected(body: RequestBody) -> int | None:
    """How many pairs a request holds: the longer of its lists (one text is set against many)."""
    longest = None
    for side in _SIDES:
        texts: Any = (body or {}).get(side)
        # An object holds the parts of one multi-modal text, or of many.
        if isinstance(texts, Mapping):
            return None
        count = _count(texts)
        if count is not None:
            longest = max(count, longest or 0)
    return longest


def _count(texts: Any) -> int | None:
    if isinstance(texts, list) and texts:
        # Token ids are one text.
        return 1 if isinstance(texts[0], int) else len(texts)
    return 1 if isinstance(texts, str) else None


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    data = value.get("data")
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return "score" in data[0]
    return isinstance(value.get("scores"), list)


SCORE = Protocol(name="score", paths=("/score",), read=read, recognises=_recognises)

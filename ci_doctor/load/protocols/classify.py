# SPDX-License-Identifier: Apache-2.0
"""Pure. `/classify`: a label and the probabilities of all classes for each text (vLLM, SGLang).

`data` holds objects with `index`, `label` and `probs`; the label is null for a model whose
configuration names none.
"""

from typing import Any

from ci_doctor.load.answer_items import ItemKind, checked
from ci_doctor.load.canonical import Canonical
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.item_answers import Item, canonical_items, in_order, listed, place_of
from ci_doctor.load.protocols.protocol import Protocol, RequestBody


def read(value: Any, body: RequestBody) -> Canonical:
    """The labels of an answer with their probabilities, in the order of the texts."""
    items = []
    for at, part in enumerate(listed(value, "data")):
        items.append(_item(place_of(part, at), part))
    return canonical_items(ItemKind.LABEL, in_order(items, _expected(body)), value)


def _item(index: int, part: Item) -> Item:
    label = part.get("label")
    if label is not None and not isinstance(label, str):
        raise NotAnAnswerError(f"`data[{index}].label` is no text")
    probabilities = checked(part.get("probs"), f"`data[{index}].probs`")
    if not probabilities:
        raise NotAnAnswerError(f"`data[{index}].probs` holds no number")
    return {"index": index, "label": label, "numbers": probabilities}


def _expected(body: RequestBody) -> int | None:
    """How many texts a request holds; None if unknown. A list of token ids is one text."""
    texts = (body or {}).get("input")
    if isinstance(texts, str):
        return 1
    if isinstance(texts, list) and texts:
        return 1 if isinstance(texts[0], int) else len(texts)
    return None


def _recognises(value: Any) -> bool:
    data = value.get("data") if isinstance(value, dict) else None
    return (
        isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "probs" in data[0]
    )


CLASSIFY = Protocol(name="classify", paths=("/classify",), read=read, recognises=_recognises)

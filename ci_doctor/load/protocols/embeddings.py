# SPDX-License-Identifier: Apache-2.0
"""Pure. `/v1/embeddings`: vectors, as lists of numbers or as base64 of them.

The forms are OpenAI's (`data` with `embedding`; base64 is little-endian float32), vLLM's additions
to it (`embed_dtype` and `endianness` of the request say what the base64 holds), Cohere's
(`embeddings`, by type or as a list), and the list of lists of text-embeddings-inference (`/embed`).
"""

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

from ci_doctor.load.answer_items import ItemKind, checked, packed
from ci_doctor.load.canonical import Canonical
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.item_answers import Item, canonical_items, in_order, listed, place_of
from ci_doctor.load.protocols.protocol import Protocol, RequestBody

# The format character of `struct` for each type of vLLM's `embed_dtype` that can be read.
_TYPES = {"float32": "f", "float16": "e", "bfloat16": "H"}
_INPUTS = ("input", "inputs", "texts")
# Cohere's types that are numbers; the first one in the answer counts, and all have to agree.
_NUMBER_TYPES = ("float", "int8", "uint8", "binary", "ubinary", "base64")


def read(value: Any, body: RequestBody) -> Canonical:
    """The vectors of an answer, in the order of the texts."""
    request = body or {}
    items = in_order(_items(value, request), _expected(request))
    return canonical_items(ItemKind.VECTOR, items, value)


def _items(value: Any, request: Mapping[str, Any]) -> list[Item]:
    vectors = _bare_vectors(value)
    if vectors is not None:
        return [_item(at, vector, request) for at, vector in enumerate(vectors)]
    items = []
    for at, part in enumerate(listed(value, "data")):
        item = _item(place_of(part, at), part.get("embedding"), request)
        items.append(item)
    return items


def _bare_vectors(value: Any) -> list[Any] | None:
    """The vectors of a form without objects around them; None if it is another one."""
    if isinstance(value, list):
        return value
    embeddings = value.get("embeddings") if isinstance(value, dict) else None
    if isinstance(embeddings, list):
        return embeddings
    if not isinstance(embeddings, dict):
        return None
    given = [name for name in _NUMBER_TYPES if embeddings.get(name)]
    if len(given) != 1 or not isinstance(embeddings[given[0]], list):
        raise NotAnAnswerError("`embeddings` must hold the vectors in one type; ask for one")
    vectors: list[Any] = embeddings[given[0]]
    return vectors


def _item(index: int, vector: Any, request: Mapping[str, Any]) -> Item:
    if isinstance(vector, str):
        vector = _decoded(vector, request)
    numbers = checked(vector, f"vector {index}")
    if not numbers:
        raise NotAnAnswerError(f"vector {index} holds no number")
    return {"index": index, "float32": packed(numbers)}


def _decoded(text: str, request: Mapping[str, Any]) -> list[float]:
    """The numbers of a vector in base64, of the type that the request asks for."""
    name = str(request.get("embed_dtype") or "float32")
    code = _TYPES.get(name)
    if code is None:
        raise NotAnAnswerError(f"base64 of {name} cannot be read: ask for {', '.join(_TYPES)}")
    order = ">" if request.get("endianness") == "big" else "<"
    try:
        content = base64.b64decode(text, validate=True)
        count = len(content) // struct.calcsize(order + code)
        values = struct.unpack(f"{order}{count}{code}", content)
    except (binascii.Error, ValueError, struct.error) as error:
        raise NotAnAnswerError(f"a vector is not base64 of {name}: {error}") from error
    if code == "H":
        # A bfloat16 is the upper half of a float32.
        raw = struct.pack(f"<{count}I", *(each << 16 for each in values))
        values = struct.unpack(f"<{count}f", raw)
    return list(values)


def _expected(request: Mapping[str, Any]) -> int | None:
    """How many texts a request holds; None if unknown. A list of token ids is one text."""
    for key in _INPUTS:
        texts = request.get(key)
        if isinstance(texts, str):
            return 1
        if isinstance(texts, list) and texts:
            return 1 if isinstance(texts[0], int) else len(texts)
    return None


def _recognises(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], list)
    if not isinstance(value, dict):
        return False
    data = value.get("data")
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return "embedding" in data[0]
    return "embeddings" in value


EMBEDDINGS = Protocol(
    name="embeddings", paths=("/embeddings", "/embed"), read=read, recognises=_recognises
)

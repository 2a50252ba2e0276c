# SPDX-License-Identifier: Apache-2.0
"""Pure. The protocols whose answers are items: labels, scores, ranked documents, vectors.

`/classify` (vLLM, SGLang): `data` holds objects with `index`, `label` and `probs`; the label is null for a
model whose configuration names none.

`/score`: how similar two texts are, a number for each pair.
vLLM answers with `data`, objects with `index` and `score`; SGLang with `scores`, a list of numbers
for each item, one for each token that the request asks for.

`/rerank`: documents in the order of their relevance to a query.
vLLM, llama.cpp, Jina and Cohere answer with `results`, objects with `index`, `relevance_score` and
at times `document`. SGLang and text-embeddings-inference answer with a bare list of objects with
`index`, `score` and at times `document` or `text`. The order is part of the answer, as it is given.

`/v1/embeddings`: vectors, as lists of numbers or as base64 of them.
The forms are OpenAI's (`data` with `embedding`; base64 is little-endian float32), vLLM's additions
to it (`embed_dtype` and `endianness` of the request say what the base64 holds), Cohere's
(`embeddings`, by type or as a list), and the list of lists of text-embeddings-inference (`/embed`).
"""

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

from ci_doctor.load.answer_items import ItemKind, NotAnAnswerError, checked, packed
from ci_doctor.load.canonical import (
    Canonical,
    Item,
    Protocol,
    RequestBody,
    canonical_items,
    count_texts,
    in_order,
    listed,
    place_of,
)


def _read_labels(value: Any, body: RequestBody) -> Canonical:
    """The labels of an answer with their probabilities, in the order of the texts."""
    parts = enumerate(listed(value, "data"))
    items = [_label(place_of(part, at), part) for at, part in parts]
    expected = count_texts((body or {}).get("input"))
    return canonical_items(ItemKind.LABEL, in_order(items, expected), value)


def _label(index: int, part: Item) -> Item:
    label = part.get("label")
    if label is not None and not isinstance(label, str):
        raise NotAnAnswerError(f"`data[{index}].label` is no text")
    probabilities = checked(part.get("probs"), f"`data[{index}].probs`")
    if not probabilities:
        raise NotAnAnswerError(f"`data[{index}].probs` holds no number")
    return {"index": index, "label": label, "numbers": probabilities}


def _first(value: Any, key: str = "data") -> Item | None:
    """The first object in the list at `key` of a response; None if there is none."""
    parts = value.get(key) if isinstance(value, dict) else None
    is_there = isinstance(parts, list) and bool(parts) and isinstance(parts[0], dict)
    return parts[0] if parts and is_there else None


CLASSIFY = Protocol(
    name="classify",
    paths=("/classify",),
    read=_read_labels,
    recognises=lambda value: "probs" in (_first(value) or ()),
)


# The two sides of the pairs, by each name that vLLM and SGLang give them.
_SIDES = ("text_1", "text_2", "queries", "documents", "query", "items", "data_1", "data_2")


def _read_scores(value: Any, body: RequestBody) -> Canonical:
    """The scores of an answer, in the order of the pairs."""
    items = in_order(_scores(value), _expected_pairs(body))
    return canonical_items(ItemKind.SCORE, items, value)


def _scores(value: Any) -> list[Item]:
    scores = value.get("scores") if isinstance(value, dict) else None
    if isinstance(scores, list) and scores:
        return [_score(at, score) for at, score in enumerate(scores)]
    parts = enumerate(listed(value, "data"))
    return [_score(place_of(part, at), part.get("score")) for at, part in parts]


def _score(index: int, score: Any) -> Item:
    # One number, or one for each label token.
    numbers = score if isinstance(score, list) and score else [score]
    return {"index": index, "numbers": checked(numbers, f"score {index}")}


def _expected_pairs(body: RequestBody) -> int | None:
    """How many pairs a request holds: the longer of its lists (one text is set against many)."""
    longest = None
    for side in _SIDES:
        texts: Any = (body or {}).get(side)
        # An object holds the parts of one multi-modal text, or of many.
        if isinstance(texts, Mapping):
            return None
        count = count_texts(texts)
        if count is not None:
            longest = max(count, longest or 0)
    return longest


def _has_scores(value: Any) -> bool:
    first = _first(value)
    if first is not None:
        return "score" in first
    return isinstance(value, dict) and isinstance(value.get("scores"), list)


SCORE = Protocol(name="score", paths=("/score",), read=_read_scores, recognises=_has_scores)


def _read_ranking(value: Any, body: RequestBody) -> Canonical:
    """The ranked documents of an answer, the most relevant first."""
    parts = listed({"results": value} if isinstance(value, list) else value, "results")
    items = [_ranked(at, part) for at, part in enumerate(parts)]
    places = [item["index"] for item in items]
    if len(set(places)) < len(places):
        raise NotAnAnswerError(f"a document stands twice in the ranking {places[:20]}")
    expected = _expected_documents(body)
    if expected is not None and len(items) != expected:
        raise NotAnAnswerError(f"{len(items)} results in the answer, {expected} were requested")
    return canonical_items(ItemKind.RANK, items, value)


def _ranked(at: int, part: Item) -> Item:
    if "index" not in part:
        raise NotAnAnswerError(f"`results[{at}]` does not name its document by `index`")
    score = part.get("relevance_score", part.get("score"))
    item = {"index": place_of(part, at), "numbers": checked([score], f"the score of rank {at}")}
    document = part.get("document", part.get("text"))
    # Jina and vLLM put the text into an object.
    if isinstance(document, dict) and isinstance(document.get("text"), str):
        document = document["text"]
    if document is not None:
        item["document"] = document
    return item


def _expected_documents(body: RequestBody) -> int | None:
    """How many documents an answer ranks: all, or `top_n` of them (0: all); None if unknown."""
    request = body or {}
    documents = request.get("documents", request.get("texts"))
    if not isinstance(documents, list):
        return None
    top = request.get("top_n")
    # By type: True is an int.
    if type(top) is int and top > 0:
        return min(top, len(documents))
    return len(documents)


def _has_ranking(value: Any) -> bool:
    first = _first({"results": value} if isinstance(value, list) else value, "results") or {}
    return "index" in first and not first.keys().isdisjoint({"relevance_score", "score"})


RERANK = Protocol(name="rerank", paths=("/rerank",), read=_read_ranking, recognises=_has_ranking)


# The format character of `struct` for each type of vLLM's `embed_dtype` that can be read.
_TYPES = {"float32": "f", "float16": "e", "bfloat16": "H"}
_INPUTS = ("input", "inputs", "texts")
# Cohere's types that are numbers; the first one in the answer counts, and all have to agree.
_NUMBER_TYPES = ("float", "int8", "uint8", "binary", "ubinary", "base64")


def _read_vectors(value: Any, body: RequestBody) -> Canonical:
    """The vectors of an answer, in the order of the texts."""
    request = body or {}
    counts = (count_texts(request.get(key)) for key in _INPUTS)
    expected = next((count for count in counts if count is not None), None)
    items = in_order(_vector_items(value, request), expected)
    return canonical_items(ItemKind.VECTOR, items, value)


def _vector_items(value: Any, request: Mapping[str, Any]) -> list[Item]:
    vectors = _bare_vectors(value)
    if vectors is not None:
        return [_vector_item(at, vector, request) for at, vector in enumerate(vectors)]
    parts = enumerate(listed(value, "data"))
    return [_vector_item(place_of(part, at), part.get("embedding"), request) for at, part in parts]


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


def _vector_item(index: int, vector: Any, request: Mapping[str, Any]) -> Item:
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


def _has_vectors(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], list)
    if not isinstance(value, dict):
        return False
    first = _first(value)
    return "embeddings" in value if first is None else "embedding" in first


EMBEDDINGS = Protocol(
    name="embeddings", paths=("/embeddings", "/embed"), read=_read_vectors, recognises=_has_vectors
)

# SPDX-License-Identifier: Apache-2.0
"""Pure. `/rerank`: documents in the order of their relevance to a query.

vLLM, llama.cpp, Jina and Cohere answer with `results`, objects with `index`, `relevance_score` and
at times `document`. SGLang and text-embeddings-inference answer with a bare list of objects with
`index`, `score` and at times `document` or `text`. The order is part of the answer, as it is given.
"""

from typing import Any

from ci_doctor.load.answer_items import ItemKind, checked
from ci_doctor.load.canonical import Canonical
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.item_answers import Item, canonical_items, listed, place_of
from ci_doctor.load.protocols.protocol import Protocol, RequestBody


def read(value: Any, body: RequestBody) -> Canonical:
    """The ranked documents of an answer, the most relevant first."""
    parts = listed({"results": value} if isinstance(value, list) else value, "results")
    items = [_item(at, part) for at, part in enumerate(parts)]
    places = [item["index"] for item in items]
    if len(set(places)) < len(places):
        raise NotAnAnswerError(f"a document stands twice in the ranking {places[:20]}")
    expected = _expected(body)
    if expected is not None and len(items) != expected:
        raise NotAnAnswerError(f"{len(items)} results in the answer, {expected} were requested")
    return canonical_items(ItemKind.RANK, items, value)


def _item(at: int, part: Item) -> Item:
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


def _expected(body: RequestBody) -> int | None:
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


def _recognises(value: Any) -> bool:
    results = value.get("results") if isinstance(value, dict) else value
    if not isinstance(results, list) or not results or not isinstance(results[0], dict):
        return False
    return "index" in results[0] and not results[0].keys().isdisjoint({"relevance_score", "score"})


RERANK = Protocol(name="rerank", paths=("/rerank",), read=read, recognises=_recognises)

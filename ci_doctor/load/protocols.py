# SPDX-License-Identifier: Apache-2.0
"""Pure. The protocols in one table, which one reads an answer, and those whose answers are texts.

`/v1/completions`: `choices` with `text`, as OpenAI's API reference and vLLM have them.
`/v1/chat/completions`: `choices` with a `message`, read as a completion is.

`/generate`: a text and its tokens, in the own API of three servers.
text-generation-inference answers with `generated_text`, and with `details` if the request asks for
them; SGLang with `text`, `output_ids` and `meta_info`; vLLM's old server with a list of texts. An
answer becomes `choices`, as a completion has them, so all that reads completions reads it too.
https://huggingface.github.io/text-generation-inference/
https://docs.sglang.ai/basic_usage/native_api.html

Any JSON of a server's own: the whole value is compared, whatever it means.
A request must name it (`"protocol": "json"`), because no path tells that an answer may be anything.
"""

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from ci_doctor.load.answer_items import ItemKind, NotAnAnswerError, checked, packed
from ci_doctor.load.canonical import (
    Canonical,
    Item,
    Protocol,
    RequestBody,
    canonical_items,
    canonicalise_value,
    count_texts,
    encode,
    in_order,
    listed,
    place_of,
)
from ci_doctor.load.schema import StreamEvent, as_object, events, folded, parse_object

# --- the protocols whose answers are items: labels, scores, ranked documents, vectors ---
# `/classify` (vLLM, SGLang): `data` holds objects with `index`, `label` and `probs`; the label is null for a
# model whose configuration names none.
#
# `/score`: how similar two texts are, a number for each pair.
# vLLM answers with `data`, objects with `index` and `score`; SGLang with `scores`, a list of numbers
# for each item, one for each token that the request asks for.
#
# `/rerank`: documents in the order of their relevance to a query.
# vLLM, llama.cpp, Jina and Cohere answer with `results`, objects with `index`, `relevance_score` and
# at times `document`. SGLang and text-embeddings-inference answer with a bare list of objects with
# `index`, `score` and at times `document` or `text`. The order is part of the answer, as it is given.
#
# `/v1/embeddings`: vectors, as lists of numbers or as base64 of them.
# The forms are OpenAI's (`data` with `embedding`; base64 is little-endian float32), vLLM's additions
# to it (`embed_dtype` and `endianness` of the request say what the base64 holds), Cohere's
# (`embeddings`, by type or as a list), and the list of lists of text-embeddings-inference (`/embed`).


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


# --- `/v1/responses`: OpenAI's Responses API, in one piece or as events; vLLM serves it, too ---
# An answer is a list of items (`output`): messages of parts, reasoning, calls of tools. Each part of
# text and each call becomes a choice of the canonical form, in the order of the answer, so that
# everything that compares and shows choices serves it, too. `finish_reason` is `completed`, or the
# reason why the answer is incomplete.
#
# Of a streamed answer the last event (`response.completed` or `response.incomplete`) holds the whole object. What came in
# pieces before must be the same text; if it is not, it becomes a part of the answer of its own, so
# that such a stream is never equal to a sound one. `data: [DONE]` may follow: some servers send it.

# The key under which a folded response holds a text that its last event does not have.
STREAMED_TEXT = "ci_doctor_streamed_text"
_DONE = "[DONE]"
_LAST = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
)


def folded_response(body: bytes) -> dict[str, Any]:
    """The response object of a whole stream.

    Raises NotAnAnswerError if the stream holds an error, breaks off before its last event, or goes
    on after it.
    """
    growing = _GrowingResponse()
    try:
        for event in events(body):
            growing.add(event)
    except UnicodeDecodeError as error:
        raise NotAnAnswerError(f"not UTF-8: {error}") from error
    return growing.value()


class _GrowingResponse:
    """A response as its events come in."""

    def __init__(self) -> None:
        self._response: dict[str, Any] | None = None
        self._pieces: list[str] = []
        self._items: dict[int, Any] = {}

    def add(self, event: StreamEvent) -> None:
        if event.data.strip() == _DONE:
            return
        if event.name == "error":
            raise NotAnAnswerError(f"an error in the stream: {event.data[:200]}")
        if self._response is not None:
            raise NotAnAnswerError("the stream goes on after its last event")
        value = parse_object(event.data)
        kind = value.get("type", event.name)
        if kind == "error":
            raise NotAnAnswerError(f"an error in the stream: {event.data[:200]}")
        if kind in _LAST:
            self._response = _response_of(value)
        elif kind == "response.output_text.delta":
            self._pieces.append(_text(value))
        elif kind == "response.output_item.done":
            at = value.get("output_index", len(self._items))
            self._items[at] = value.get("item")

    def value(self) -> dict[str, Any]:
        if self._response is None:
            raise NotAnAnswerError("the stream breaks off: no `response.completed` at its end")
        response = dict(self._response)
        # Some servers leave the items out of the last event.
        if not response.get("output") and self._items:
            response["output"] = [self._items[at] for at in sorted(self._items)]
        streamed = "".join(self._pieces)
        if streamed and streamed != _whole_text(response):
            response[STREAMED_TEXT] = streamed
        return response


def _response_of(value: dict[str, Any]) -> dict[str, Any]:
    response = value.get("response")
    if not isinstance(response, dict):
        raise NotAnAnswerError("the last event of the stream holds no response")
    if response.get("error"):
        shown = str(response["error"])[:200]
        raise NotAnAnswerError(f"an error in the stream: {shown}")
    return response


def _text(value: dict[str, Any]) -> str:
    delta = value.get("delta")
    if not isinstance(delta, str):
        raise NotAnAnswerError("a piece of text in the stream is no text")
    return delta


def _whole_text(response: dict[str, Any]) -> str:
    """The text of all messages of a response; parts of any other shape count as none."""
    return "".join(
        part["text"]
        for item in _objects(response.get("output"))
        if item.get("type") == "message"
        for part in _objects(item.get("content"))
        if part.get("type") == "output_text" and isinstance(part.get("text"), str)
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]


# Of a call of a tool that the server made itself: what differs from call to call by design.
_NOT_COMPARED = frozenset({"id", "call_id", "status", "container_id"})
_TEXTS = ("output_text", "text", None)
_COUNTS = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}

Choice = dict[str, Any]
Part = dict[str, Any]


def read(value: Any, _body: RequestBody) -> Canonical:
    """The answer of a response object."""
    response = as_object(value)
    ending = _ending(response)
    choices = [choice for item in _parts(response, "output") for choice in _choices(item)]
    streamed = response.get(STREAMED_TEXT)
    if streamed is not None:
        choices.append({"text": streamed})
    if not choices:
        # An answer without any item is an answer, and counts as empty.
        choices.append({"message": {}})
    for index, choice in enumerate(choices):
        choice |= {"index": index, **ending}
    return canonicalise_value({**response, "choices": choices, "usage": _usage(response)})


def _ending(response: Part) -> Part:
    """Why the answer ended, as the part of a choice. Raises NotAnAnswerError if it has not."""
    status = response.get("status")
    if status is None:
        return {}
    if status == "completed":
        return {"finish_reason": status}
    if status == "incomplete":
        # The token limit or a filter: whole, as with the finish reasons "length" and its like.
        details = response.get("incomplete_details") or {}
        reason = details.get("reason") if isinstance(details, dict) else None
        return {"finish_reason": reason or status}
    raise NotAnAnswerError(f"the answer is not finished: its `status` is {str(status)[:40]}")


def _parts(of: Part, key: str) -> list[Part]:
    """The list of objects at `key`; none if it is absent or null. Raises NotAnAnswerError."""
    values = of.get(key)
    if values is None and key != "output":
        return []
    if not isinstance(values, list):
        raise NotAnAnswerError(f"outside the API's schema: `{key}` is not a list")
    for part in values:
        if not isinstance(part, dict):
            raise NotAnAnswerError(f"outside the API's schema: `{key}` holds what is no object")
    return values


def _choices(item: Part) -> Iterator[Choice]:
    """The choices of one item: one for each part of a message, one for anything else."""
    kind = item.get("type")
    if kind == "message":
        for part in _parts(item, "content"):
            yield _text_choice(part)
    elif kind == "reasoning":
        yield {"message": {"reasoning": _joined(item, "content")}}
        if item.get("summary"):
            yield {"message": {"reasoning_content": _joined(item, "summary")}}
    elif kind in {"function_call", "custom_tool_call"}:
        call = {key: item.get(key) for key in ("name", "arguments", "input")}
        yield {"message": {"tool_calls": [call]}}
    else:
        rest = {key: value for key, value in item.items() if key not in _NOT_COMPARED}
        call = {"name": str(kind), "arguments": encode(rest).decode("ascii")}
        yield {"message": {"tool_calls": [call]}}


def _text_choice(part: Part) -> Choice:
    kind = part.get("type")
    if kind == "refusal":
        return {"message": {"refusal": part.get("refusal")}}
    if kind not in _TEXTS:
        # Audio and whatever comes later must not be left out without a word.
        raise NotAnAnswerError(f"a part of type {str(kind)[:40]} cannot be compared")
    choice: Choice = {"message": {"content": part.get("text")}}
    if part.get("logprobs"):
        # Entries of the same shape as a chat's.
        choice["logprobs"] = {"content": part["logprobs"]}
    return choice


def _joined(item: Part, key: str) -> str:
    texts = []
    for part in _parts(item, key):
        text = part.get("text")
        if not isinstance(text, str):
            raise NotAnAnswerError(f"outside the API's schema: `{key}` holds a part without `text`")
        texts.append(text)
    return "\n".join(texts)


def _usage(response: Part) -> Any:
    """The usage with the names that the other protocols give its counts."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return usage
    return {_COUNTS.get(key, key): value for key, value in usage.items()}


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and value.get("object") == "response"


RESPONSES = Protocol(
    name="responses",
    paths=("/responses",),
    read=read,
    recognises=_recognises,
    fold=folded_response,
    sampled=True,
)


def _read_value(value: Any, _body: RequestBody) -> Canonical:
    """The value as one text, with the keys of its objects in order; numbers as they are written."""
    text = encode(value).decode("ascii")
    return canonicalise_value({"choices": [{"index": 0, "text": text}]})


def _recognises_nothing(_value: Any) -> bool:
    """Never: every value would fit, and a broken completion would pass as an answer."""
    return False


JSON_VALUE = Protocol(
    name="json", paths=(), read=_read_value, recognises=_recognises_nothing, prompted=False
)


def expected_choices(body: RequestBody) -> int | None:
    """How many choices an answer must have: `n` for each prompt; None if unknown."""
    if body is None:
        return None
    each = body.get("n") or 1
    if not isinstance(each, int) or "prompt_embeds" in body:
        return None
    if not {"prompt", "messages"} & body.keys():
        return None
    return each * (count_texts(body.get("prompt")) or 1)


def _read_choices(value: Any, body: RequestBody) -> Canonical:
    """The answer of a completion or a chat: a server behind a proxy may give either form."""
    return canonicalise_value(value, expected_choices(body))


def has_choices(value: Any) -> bool:
    """Whether a response has the form of both."""
    return isinstance(value, dict) and "choices" in value


COMPLETIONS = Protocol(
    name="completions",
    paths=("/completions",),
    read=_read_choices,
    recognises=has_choices,
    fold=folded,
    sampled=True,
)


CHAT = Protocol(
    name="chat",
    paths=("/chat/completions",),
    read=_read_choices,
    recognises=has_choices,
    fold=folded,
    sampled=True,
)


_Choice = dict[str, Any]


def _read_texts(value: Any, body: RequestBody) -> Canonical:
    """The texts of an answer, in the order of the prompts."""
    parts = value if isinstance(value, list) else [value]
    choices = [choice for part in parts for choice in _choices_of(part)]
    for index, choice in enumerate(choices):
        choice["index"] = index
    return canonicalise_value({"choices": choices}, _expected_texts(body))


def _choices_of(part: Any) -> list[_Choice]:
    if not isinstance(part, Mapping):
        raise NotAnAnswerError(f"a JSON {type(part).__name__} instead of an object")
    if "generated_text" in part:
        return [_of_tgi(part)]
    texts = part.get("text")
    if isinstance(texts, list):
        return [{"text": text} for text in texts]
    if texts is not None:
        return [_of_sglang(part)]
    raise NotAnAnswerError("neither `generated_text` nor `text` in the answer")


def _of_tgi(part: Mapping[str, Any]) -> _Choice:
    choice: _Choice = {"text": part["generated_text"]}
    details = part.get("details")
    if details is None:
        return choice
    if not isinstance(details, Mapping):
        raise NotAnAnswerError("`details` is not an object")
    choice["finish_reason"] = details.get("finish_reason")
    tokens = details.get("tokens") or []
    if not all(isinstance(token, Mapping) for token in tokens):
        raise NotAnAnswerError("a token of `details` is not an object")
    choice["token_ids"] = [token.get("id") for token in tokens]
    choice["logprobs"] = {
        "tokens": [token.get("text") for token in tokens],
        "token_logprobs": [token.get("logprob") for token in tokens],
    }
    return choice


def _of_sglang(part: Mapping[str, Any]) -> _Choice:
    choice: _Choice = {"text": part["text"], "token_ids": part.get("output_ids")}
    facts = part.get("meta_info")
    if not isinstance(facts, Mapping):
        return choice
    reason = facts.get("finish_reason")
    # An object: {"type": "length", "length": 16}.
    choice["finish_reason"] = reason.get("type") if isinstance(reason, Mapping) else reason
    return choice


def _expected_texts(body: RequestBody) -> int | None:
    """How many texts a request asks for; None if unknown."""
    for key in ("inputs", "text"):
        texts = (body or {}).get(key)
        if isinstance(texts, str):
            return 1
        if isinstance(texts, list) and texts:
            return len(texts)
    return None


def _has_texts(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, Mapping):
        return False
    return "generated_text" in first or ("text" in first and "meta_info" in first)


GENERATE = Protocol(
    name="generate",
    paths=("/generate",),
    read=_read_texts,
    recognises=_has_texts,
    sampled=True,
)


# The first one with a matching path counts: `/chat/completions` ends like `/completions`.
PROTOCOLS = (
    CHAT,
    COMPLETIONS,
    RESPONSES,
    EMBEDDINGS,
    CLASSIFY,
    SCORE,
    RERANK,
    GENERATE,
    JSON_VALUE,
)
BY_NAME = {each.name: each for each in PROTOCOLS}
# For a hint: the usual path of each.
USUAL_PATHS = tuple(f"/v1{each.paths[0]}" for each in PROTOCOLS if each.paths)


def of_path(path: str) -> Protocol | None:
    """The protocol of the endpoint at a URL's path, query included; None if no one knows it.

    What stands before the ending is a server's own: `/v1`, or the prefix of a proxy.
    """
    place = path.partition("?")[0].rstrip("/")
    return next((each for each in PROTOCOLS if place.endswith(each.paths)), None)


def of_answer(value: Any) -> Protocol | None:
    """The protocol of a parsed response whose request is not known; None if no one knows it."""
    return next((each for each in PROTOCOLS if each.recognises(value)), None)

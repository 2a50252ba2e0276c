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

from collections.abc import Mapping
from typing import Any

from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import (
    Canonical,
    Protocol,
    RequestBody,
    canonicalise_value,
    count_texts,
    encode,
)
from ci_doctor.load.item_protocols import CLASSIFY, EMBEDDINGS, RERANK, SCORE
from ci_doctor.load.response_protocol import RESPONSES
from ci_doctor.load.streamed import folded


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

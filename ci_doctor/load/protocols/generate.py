# SPDX-License-Identifier: Apache-2.0
"""Pure. `/generate`: a text and its tokens, in the own API of three servers.

text-generation-inference answers with `generated_text`, and with `details` if the request asks for
them; SGLang with `text`, `output_ids` and `meta_info`; vLLM's old server with a list of texts. An
answer becomes `choices`, as a completion has them, so all that reads completions reads it too.
https://huggingface.github.io/text-generation-inference/
https://docs.sglang.ai/basic_usage/native_api.html
"""

from collections.abc import Mapping
from typing import Any

from ci_doctor.load.canonical import Canonical
from ci_doctor.load.choice_answers import canonicalise_value
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols.protocol import Protocol, RequestBody

_Choice = dict[str, Any]


def read(value: Any, body: RequestBody) -> Canonical:
    """The texts of an answer, in the order of the prompts."""
    parts = value if isinstance(value, list) else [value]
    choices: list[_Choice] = []
    for part in parts:
        choices += _choices(part)
    for index, choice in enumerate(choices):
        choice["index"] = index
    return canonicalise_value({"choices": choices}, _expected(body))


def _choices(part: Any) -> list[_Choice]:
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


def _expected(body: RequestBody) -> int | None:
    """How many texts a request asks for; None if unknown."""
    for key in ("inputs", "text"):
        texts = (body or {}).get(key)
        if isinstance(texts, str):
            return 1
        if isinstance(texts, list) and texts:
            return len(texts)
    return None


def _recognises(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, Mapping):
        return False
    return "generated_text" in first or ("text" in first and "meta_info" in first)


GENERATE = Protocol(
    name="generate",
    paths=("/generate",),
    read=read,
    recognises=_recognises,
    sampled=True,
)

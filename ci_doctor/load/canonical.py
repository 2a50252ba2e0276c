# SPDX-License-Identifier: Apache-2.0
"""An OpenAI-compatible response as what is compared and what is not. Pure.

Compared: what the model said, why it stopped, and the numbers it gave. Left out, and kept as `meta`: what differs from
call to call by design (ids, times, fingerprints, cache statistics). The fields are those of vLLM's protocol
(vllm/entrypoints/openai/protocol.py) and OpenAI's API reference. Streamed and whole answers must come out the same, so
what one form says by "" or [] and the other by leaving it out is left out.
"""

import hashlib
import json
from typing import Any

from msgspec import Struct

from ci_doctor.load import logprobs, strict_json

CHOICE_KEYS = (
    "index",
    "text",
    "finish_reason",
    "stop_reason",
    "matched_stop",  # SGLang's stop_reason
    "token_ids",
    "logprobs",
    "prompt_logprobs",
)
MESSAGE_KEYS = ("role", "content", "reasoning_content", "reasoning", "refusal", "audio")
# vLLM and SGLang say so where the engine gave up on a request (FinishReason in vllm/v1/engine/__init__.py).
BROKEN_OFF = ("abort", "error")
META_KEYS = (
    "id",
    "created",
    "system_fingerprint",
    "service_tier",
    "metrics",
    "kv_transfer_params",
    "ec_transfer_params",
)


class Canonical(Struct, frozen=True, kw_only=True):
    """`output` is compared, `digest` is the SHA-256 of it as canonical JSON, `meta` is the rest.

    `said` is the digest without log-probabilities: of the words alone. `asked` is what the server says it was asked
    (model, prompt tokens): arms that differ here were not asked the same. `empty` says that no choice holds any text, reasoning or tool call.
    """

    output: dict[str, Any]
    digest: str
    said: str
    meta: dict[str, Any]
    asked: dict[str, Any]
    empty: bool


class NotAnAnswerError(ValueError):
    """The body is not an answer of a model; the text says why."""


def canonicalise(body: bytes, expected: int | None = None) -> Canonical:
    """The parts of a 200 response to a request that asked for `expected` choices (None: unknown).

    Raises NotAnAnswerError where the body is not a whole answer. NaN and Infinity are not JSON (RFC 8259), and a model
    that gives them is broken, whether or not the other arm is too. Log-probabilities are taken as float32 (see
    `logprobs`), every other number as it stands.
    """
    return canonicalise_value(parse_object(body), expected)


def parse_object(text: bytes | str) -> dict[str, Any]:
    """A JSON object that is no error report. Raises NotAnAnswerError for anything else."""
    try:
        value = strict_json.parse(text)
    except ValueError as error:
        raise NotAnAnswerError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotAnAnswerError(f"a JSON {type(value).__name__} instead of an object")
    if value.get("error"):
        raise NotAnAnswerError(f"an error in a 200 response: {json.dumps(value['error'])[:200]}")
    return value


def canonicalise_value(value: dict[str, Any], expected: int | None = None) -> Canonical:
    """`canonicalise` for an answer that is parsed already."""
    choices = value.get("choices")
    if (
        not isinstance(choices, list)
        or not choices
        or not all(isinstance(choice, dict) for choice in choices)
    ):
        raise NotAnAnswerError("no `choices` in the answer")
    if expected is not None and len(choices) != expected:
        raise NotAnAnswerError(f"{len(choices)} choices in the answer, {expected} were asked for")
    try:
        return _split(value, sorted(choices, key=index_of))
    except RecursionError as error:
        raise NotAnAnswerError("nested too deep") from error


def index_of(part: dict[str, Any]) -> int:
    """Which choice this is, 0 where it does not say so. Raises NotAnAnswerError where that is no number."""
    index = part.get("index", 0)
    if type(index) is not int:
        raise NotAnAnswerError("a choice's `index` is not a number")
    return index


def _split(value: dict[str, Any], choices: list[dict[str, Any]]) -> Canonical:
    said = [_choice(choice) for choice in choices]
    usage = _usage(value.get("usage"))
    output: dict[str, Any] = {"choices": said}
    if "completion_tokens" in usage:
        output["completion_tokens"] = usage["completion_tokens"]
    if value.get("prompt_logprobs") is not None:
        output["prompt_logprobs"] = logprobs.as_float32(value["prompt_logprobs"])
    meta = {key: value[key] for key in META_KEYS if key in value}
    if usage:
        meta["usage"] = usage
    return Canonical(
        output=output,
        digest=(whole := digest(output)),
        said=_said(output, whole),
        meta=meta,
        asked=_asked(value, usage, choices),
        empty=not any(_says_something(each) for each in said),
    )


def _said(output: dict[str, Any], whole: str) -> str:
    numbers = {"logprobs", "prompt_logprobs"}
    if not numbers & output.keys() and not any(
        numbers & choice.keys() for choice in output["choices"]
    ):
        return whole
    words = {key: value for key, value in output.items() if key not in numbers}
    words["choices"] = [
        {key: value for key, value in choice.items() if key not in numbers}
        for choice in output["choices"]
    ]
    return digest(words)


def _usage(value: object) -> dict[str, Any]:
    """The counts of a `usage`; what is no count would differ from a count, and be taken for another answer."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotAnAnswerError("`usage` is not an object")
    usage = {key: count for key, count in value.items() if count is not None}
    for key in ("completion_tokens", "prompt_tokens"):
        if key in usage and (type(usage[key]) is not int or usage[key] < 0):
            raise NotAnAnswerError(f"`usage.{key}` is no count: {json.dumps(usage[key])[:40]}")
    return usage


def _asked(
    value: dict[str, Any], usage: dict[str, Any], choices: list[dict[str, Any]]
) -> dict[str, Any]:
    """What the server says it was asked. vLLM tells a chat's prompt tokens beside the choices, a completion's in them."""
    told = {"model": value.get("model"), "prompt_tokens": usage.get("prompt_tokens")}
    ids = [value.get("prompt_token_ids"), *(choice.get("prompt_token_ids") for choice in choices)]
    if any(each is not None for each in ids):
        told["prompt_token_ids"] = ids
    return {key: fact for key, fact in told.items() if fact is not None}


def _choice(choice: dict[str, Any]) -> dict[str, Any]:
    part = {key: choice[key] for key in CHOICE_KEYS if choice.get(key) not in (None, [])} | {
        "index": index_of(choice)
    }
    if (numbers := logprobs.told(part.pop("logprobs", None))) is not None:
        part["logprobs"] = numbers
    if "prompt_logprobs" in part:
        part["prompt_logprobs"] = logprobs.as_float32(part["prompt_logprobs"])
    message = choice.get("message")
    if message is not None:
        part["message"] = _message(message)
    elif "text" not in choice:
        raise NotAnAnswerError("a choice holds neither `text` nor `message`")
    if choice.get("finish_reason") in BROKEN_OFF:
        raise NotAnAnswerError(
            f"the server broke the answer off: finish_reason {choice['finish_reason']}"
        )
    return part


def _message(message: Any) -> dict[str, Any]:
    """What a chat's message says; without a role it is the assistant's, who alone answers."""
    if not isinstance(message, dict):
        raise NotAnAnswerError("a choice's `message` is not an object")
    said = {"role": "assistant"} | {
        key: message[key] for key in MESSAGE_KEYS if message.get(key) not in (None, "")
    }
    calls = message.get("tool_calls") or (
        [message["function_call"]] if message.get("function_call") else []
    )
    if not isinstance(calls, list):
        raise NotAnAnswerError("a message's `tool_calls` are not a list")
    if calls:
        said["tool_calls"] = [_tool_call(call) for call in calls]
    return said


def _tool_call(call: Any) -> dict[str, Any]:
    """Name and raw arguments: the call's id is random."""
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise NotAnAnswerError("a tool call is not an object")
    return {
        key: None if function.get(key) == "" else function.get(key) for key in ("name", "arguments")
    }


def _says_something(choice: dict[str, Any]) -> bool:
    message = choice.get("message", {})
    spoken = (
        choice.get("text"),
        *(
            message.get(key)
            for key in ("content", "reasoning_content", "reasoning", "refusal", "audio")
        ),
    )
    return bool(any(spoken) or message.get("tool_calls") or choice.get("token_ids"))


def encode(output: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, ASCII. JSON numbers decode to doubles exactly, so bits survive.

    Raises NotAnAnswerError for what cannot be written again, as a number beyond all doubles (`1e999`).
    """
    try:
        return json.dumps(output, sort_keys=True, separators=(",", ":"), allow_nan=False).encode(
            "ascii"
        )
    except (ValueError, RecursionError) as error:
        raise NotAnAnswerError(f"cannot be written as JSON again: {error}") from error


def digest(output: Any) -> str:
    """SHA-256 of `encode(output)`."""
    return hashlib.sha256(encode(output)).hexdigest()


def text_of(output: dict[str, Any]) -> str:
    """What a person reads of an output, all choices in order: for showing where two answers part."""
    parts = []
    for choice in output.get("choices", []):
        message = choice.get("message", {})
        parts += [str(choice["text"])] if choice.get("text") is not None else []
        parts += [
            str(message[key])
            for key in ("reasoning_content", "reasoning", "content", "refusal")
            if message.get(key)
        ]
        parts += [
            json.dumps(call, sort_keys=True, ensure_ascii=False)
            for call in message.get("tool_calls", [])
        ]
    return "\n".join(parts)

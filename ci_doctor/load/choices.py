# SPDX-License-Identifier: Apache-2.0
"""Pure. One choice of an answer, reduced to what is compared, its log-probabilities as float32.

Its shape has been checked before (`schema`). Streamed and whole answers must come out the same: what one form writes as "" or [] and
the other omits is omitted.

A server computes log-probabilities in float32 or less, and prints them with few digits or many. Three forms
are known: the lists of legacy completions (`token_logprobs`, `top_logprobs`: token -> number), the
entries of chats (`content`: a list of `{"token", "logprob", "top_logprobs"}`), and vLLM's
`prompt_logprobs` (a list of token id -> `{"logprob", "rank"}`).
"""

import math
import struct
from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import Any

_FLOAT = struct.Struct("<f")
_BITS = struct.Struct("<i")


def nearest(values: Collection[float]) -> list[float]:
    """Each number as the double of its nearest float32, ties to even.

    What is beyond float32's range stays as it is. Raises TypeError if one is no number, and
    OverflowError for an integer beyond all doubles.
    """
    # Many at once, by array: this is the part of a large answer that costs time.
    rounded = array("f", values).tolist()
    if all(map(math.isfinite, rounded)):
        return rounded
    pairs = zip(rounded, values, strict=True)
    return [near if math.isfinite(near) else float(exact) for near, exact in pairs]


def ulp_distance(a: float, b: float) -> int:
    """How many float32 steps lie between two numbers: 0 for the same one, 1 for neighbours.

    0.0 and -0.0 are the same. The bits of a float, read as sign and magnitude, are integers in the
    order of the numbers: B. Dawson, "Comparing Floating Point Numbers, 2012 Edition"
    (https://randomascii.wordpress.com/2012/02/25/). What is beyond the range counts as infinity,
    which follows the largest float32. Raises ValueError for NaN, which has no place in that order.
    """
    if math.isnan(a) or math.isnan(b):
        raise ValueError("NaN is no step away from anything")
    return abs(_place(a) - _place(b))


def _place(value: float) -> int:
    # By array first: struct refuses what is beyond the range, array makes infinity of it.
    bits = int(_BITS.unpack(_FLOAT.pack(array("f", (value,))[0]))[0])
    return bits if bits >= 0 else -(bits & 0x7FFFFFFF)


# Parts without a log-probability in them; the first two are most of a large answer.
_AS_THEY_ARE = frozenset({"bytes", "tokens", "text_offset", "token", "decoded_token", "rank"})


def comparable(value: Any) -> Any:
    """A choice's `logprobs` as compared; None if it holds nothing.

    null and an empty list are the same as an absent part.
    """
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if part not in (None, [])}
    if not value:
        return None
    return as_float32(value)


def as_float32(value: Any) -> Any:
    """`value` with each log-probability as the double of its nearest float32.

    A log-probability is every number with a fraction or an exponent, and an integer in the place
    of one. Other integers stay as they are.
    """
    if isinstance(value, list):
        return _of_list(value)
    if isinstance(value, dict):
        return _of_object(value)
    if isinstance(value, float):
        return nearest((value,))[0]
    return value


def _of_list(values: list[Any]) -> list[Any]:
    # Most lists are of floats alone, and one call for all of them is fast.
    if set(map(type, values)) == {float}:
        return list(nearest(values))
    return [as_float32(each) for each in values]


def _of_object(value: dict[str, Any]) -> dict[str, Any]:
    """An entry of a chat, a set of lists, or any other object."""
    result = {}
    for key, part in value.items():
        if key in {"logprob", "token_logprobs"}:
            result[key] = _numbers(part)
        elif key in _AS_THEY_ARE:
            result[key] = part
        elif key == "top_logprobs" and isinstance(part, list):
            result[key] = [_alternatives(each) for each in part]
        else:
            result[key] = as_float32(part)
    return result


def _alternatives(value: Any) -> Any:
    """Those of one token. The legacy form holds nothing but numbers.

    Its keys are tokens, and one may be called "rank" or "bytes".
    """
    if not isinstance(value, Mapping):
        return as_float32(value)
    numbers = list(value.values())
    if not all(map(_is_number, numbers)):
        return as_float32(value)
    rounded = _rounded(numbers)
    return dict(zip(value, rounded, strict=True))


def _numbers(value: Any) -> Any:
    """A log-probability, or a list of them with gaps; integers are numbers here."""
    if isinstance(value, list):
        places = [place for place, each in enumerate(value) if _is_number(each)]
        rounded = _rounded([value[place] for place in places])
        # Anything else stays in its place; the first token has None for a number.
        result = list(value)
        for place, number in zip(places, rounded, strict=True):
            result[place] = number
        return result
    return _rounded([value])[0] if _is_number(value) else value


def _is_number(value: Any) -> bool:
    # By type: True is an int.
    return type(value) in {float, int}


def _rounded(values: list[Any]) -> list[Any]:
    try:
        return list(nearest(values))
    except OverflowError:
        # An integer beyond all doubles is no log-probability, and is compared as it stands.
        return values


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
# A role alone is not content.
_CONTENT_KEYS = (*MESSAGE_KEYS[1:], "tool_calls")
# The finish reasons of vLLM and SGLang for a request that the engine gave up (FinishReason in
# vllm/v1/engine/__init__.py).
BROKEN_OFF = ("abort", "error")


class NotAnAnswerError(ValueError):
    """The body is not an answer of a model; the text says why."""


def index_of(part: dict[str, Any]) -> int:
    """Which choice this is, 0 without an index."""
    index: int = part.get("index", 0)
    return index


def compared_choice(choice: dict[str, Any]) -> dict[str, Any]:
    """The parts of a choice that are compared. Raises NotAnAnswerError if it is not complete."""
    part = _filled(choice, CHOICE_KEYS, (None, []))
    # 0 without an index, so that an answer with it is the same as one without.
    part["index"] = index_of(choice)
    numbers = comparable(part.pop("logprobs", None))
    if numbers is not None:
        part["logprobs"] = numbers
    if "prompt_logprobs" in part:
        part["prompt_logprobs"] = as_float32(part["prompt_logprobs"])
    message = choice.get("message")
    if message is not None:
        part["message"] = _message(message)
    elif "text" not in choice:
        raise NotAnAnswerError("a choice holds neither `text` nor `message`")
    reason = choice.get("finish_reason")
    if reason in BROKEN_OFF:
        raise NotAnAnswerError(f"the server broke the answer off: finish_reason {reason}")
    return part


def _filled(value: dict[str, Any], keys: Sequence[str], omitted: Sequence[Any]) -> dict[str, Any]:
    """The values of `keys`, without those that the other form of an answer omits."""
    return {key: value[key] for key in keys if value.get(key) not in omitted}


def is_empty(choice: dict[str, Any]) -> bool:
    """Whether a compared choice holds no text, reasoning, tool call or token."""
    if choice.get("text") or choice.get("token_ids"):
        return False
    message = choice.get("message", {})
    return not any(map(message.get, _CONTENT_KEYS))


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """The parts of a chat's message; without a role it is the assistant's, who alone answers."""
    part = {"role": "assistant", **_filled(message, MESSAGE_KEYS, (None, ""))}
    calls: list[dict[str, Any]] = message.get("tool_calls") or []
    # The legacy `function_call` counts as one.
    if not calls and message.get("function_call"):
        calls = [message["function_call"]]
    if calls:
        part["tool_calls"] = [_tool_call(call) for call in calls]
    return part


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    """Name and raw arguments; the call's id is random. Raises NotAnAnswerError without a name."""
    # The legacy `function_call` is the function itself.
    function = call.get("function") or call.get("custom") or call
    # "" and an absent key are the same in a stream, so they are here.
    part = {
        key: None if function.get(key) == "" else function.get(key) for key in ("name", "arguments")
    }
    if function.get("input"):  # of a custom tool, which has no arguments
        part["input"] = function["input"]
    if part["name"] is None:
        raise NotAnAnswerError("a tool call does not name its tool")
    return part

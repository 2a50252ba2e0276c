# SPDX-License-Identifier: Apache-2.0
"""Pure. One choice of an answer, reduced to what is compared: its text, or its items; the words, tokens and numbers of both."""

import base64
import binascii
import math
import struct
import sys
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

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
            result[key] = [_of_one_token(each) for each in part]
        else:
            result[key] = as_float32(part)
    return result


def _of_one_token(value: Any) -> Any:
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


# --- answers that are no text; the words, tokens and numbers of any answer ---


_NUMBER_TYPES = {int, float}
_NUMBERS = frozenset({"numbers", "float32"})

_FAR = 2.0**20


class ItemKind(StrEnum):
    """What an item of an answer is."""

    VECTOR = "vector"
    LABEL = "label"
    SCORE = "score"
    RANK = "rank"


# Of these the index is the place in the request, and there is nothing to read but numbers.
_WORDLESS = frozenset({ItemKind.VECTOR, ItemKind.SCORE})


def items_of(output: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The items of a canonical output; None if it is of the other form, `choices`."""
    return output.get("items")


def is_wordless(output: Mapping[str, Any]) -> bool:
    """Whether its items are numbers alone."""
    return output.get("kind") in _WORDLESS


def item_numbers(item: Mapping[str, Any]) -> Sequence[float]:
    """The numbers of one item, each a float32. Raises NotAnAnswerError if they cannot be read."""
    packed = item.get("float32")
    if packed is None:
        numbers: list[float] = item.get("numbers", [])
        return numbers
    return unpacked(packed)


def check_items(output: Mapping[str, Any]) -> None:
    """Raises NotAnAnswerError for an `output` that no protocol can have made.

    It may have been written by another program.
    """
    items = output.get("items")
    # As text: what another program wrote there may have no hash.
    if str(output.get("kind")) not in set(ItemKind):
        raise NotAnAnswerError("the `kind` of the answer is unknown")
    if not isinstance(items, list) or not items:
        raise NotAnAnswerError("no `items` in the answer")
    for item in items:
        if not isinstance(item, dict) or type(item.get("index")) is not int:
            raise NotAnAnswerError("an item of the answer has no `index`")
        packed_numbers = item.get("float32")
        if packed_numbers is None:
            checked(item.get("numbers"), "an item of the answer")
        elif not isinstance(packed_numbers, str):
            raise NotAnAnswerError("`float32` of an item is no text")
        else:
            unpacked(packed_numbers)


def is_zero(output: Mapping[str, Any]) -> bool:
    """Whether an output holds vectors, and nothing but zeros in them."""
    if output.get("kind") != ItemKind.VECTOR:
        return False
    items = items_of(output) or ()
    return not any(any(item_numbers(item)) for item in items)


def with_other_item(output: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A copy of an output whose first item is another one at each level; `number` chooses which.

    A ranking gets another document, a label another text, a vector and a score another first
    number, far from any that a model gives.
    """
    first, *rest = output["items"]
    other = dict(first)
    kind = output.get("kind")
    if kind == ItemKind.RANK:
        other["index"] = number
    elif kind == ItemKind.LABEL:
        other["label"] = f"{first.get('label')} {number}"
    else:
        _, *numbers = item_numbers(first)
        other = {"index": first["index"], "numbers": [_FAR + number, *numbers]}
    return {**output, "items": [other, *rest]}


def item_text(item: Mapping[str, Any]) -> str:
    """One item for people: its label or its place, and each number in full."""
    # Nine digits tell any two float32 apart.
    numbers = " ".join(f"{number:.9g}" for number in item_numbers(item))
    name = item.get("label")
    if name is None:
        name = item.get("index")
    return f"{name}: {numbers}"


def words_of_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item with the count of its numbers instead of them."""
    words = {key: value for key, value in item.items() if key not in _NUMBERS}
    words["count"] = len(item_numbers(item))
    return words


def packed(numbers: Sequence[float]) -> str:
    """Numbers as base64 of little-endian float32."""
    values = array("f", numbers)
    if sys.byteorder == "big":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode("ascii")


def unpacked(text: str) -> list[float]:
    """The numbers of a base64 text of little-endian float32.

    Raises NotAnAnswerError for anything else, and for NaN and infinity, which no model may give.
    """
    values = array("f")
    try:
        values.frombytes(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error) as error:
        raise NotAnAnswerError(f"a vector is not base64 of float32: {error}") from error
    if sys.byteorder == "big":
        values.byteswap()
    numbers = values.tolist()
    _check_finite(numbers)
    return numbers


def checked(values: Any, what: str) -> list[float]:
    """A list of JSON numbers as float32. Raises NotAnAnswerError; `what` names it in the sentence.

    null is what servers write for NaN.
    """
    if not isinstance(values, list):
        raise NotAnAnswerError(f"{what} is not a list of numbers")
    # All types at once: a loop over a long vector would take most of the time. True is an int.
    if not set(map(type, values)) <= _NUMBER_TYPES:
        raise NotAnAnswerError(f"{what} holds {_first_other(values)}")
    try:
        numbers = nearest(values)
    except OverflowError as error:
        raise NotAnAnswerError(f"{what} holds a number beyond all doubles") from error
    _check_finite(numbers)
    return numbers


def _first_other(values: list[Any]) -> str:
    for place, value in enumerate(values):
        if value is None:
            return f"null (NaN) at position {place}"
        if type(value) not in _NUMBER_TYPES:
            return f"no number at position {place}"
    return "no number"


def _check_finite(numbers: Sequence[float]) -> None:
    if not all(map(math.isfinite, numbers)):
        raise NotAnAnswerError("a vector holds NaN or infinity")


_LOGPROBS = frozenset({"logprobs", "prompt_logprobs"})
_TOKENS = frozenset({"token_ids", "completion_tokens"})


class AnswerParts(Struct, frozen=True, kw_only=True):
    """`words` and `tokens` are JSON values: compare them by `digest`. `numbers` are float32 values.

    `words`: text, reasoning, tool calls, finish reasons, labels, the order of ranked documents.
    `tokens`: token ids, their texts and counts. `numbers`: the log-probabilities of the answer's
    own tokens, vectors, scores, in the order of the answer. `alternatives`: for each position of
    the answer or the prompt that lists any, log-probability by token. `wordless`: the answer is
    numbers alone (vectors, scores), so equal words and tokens prove nothing about it.
    """

    words: Any
    tokens: Any
    numbers: tuple[float, ...] = ()
    alternatives: tuple[Mapping[str, float], ...] = ()
    wordless: bool = False


def parts(output: Mapping[str, Any]) -> AnswerParts:
    """The parts of a canonical output, which `check_output` accepts."""
    items = items_of(output)
    if items is not None:
        words = _without(output, frozenset({"items"}))
        return AnswerParts(
            words={**words, "items": [words_of_item(item) for item in items]},
            tokens=None,
            numbers=tuple(number for item in items for number in item_numbers(item)),
            wordless=is_wordless(output),
        )
    choices = output.get("choices", [])
    kept = [_without(choice, _LOGPROBS | _TOKENS) for choice in choices]
    return AnswerParts(
        words={**_without(output, _LOGPROBS | _TOKENS), "choices": kept},
        tokens=[output.get("completion_tokens"), [_tokens(choice) for choice in choices]],
        numbers=tuple(own_numbers(choices)),
        alternatives=tuple(_alternatives(output)),
    )


def _without(part: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in keys}


def _tokens(choice: Mapping[str, Any]) -> list[Any]:
    """The token ids, and the tokens that the log-probabilities name."""
    logprobs = _logprobs(choice)
    named = [[entry.get("token"), entry.get("bytes")] for entry in _entries(logprobs)]
    return [choice.get("token_ids"), logprobs.get("tokens"), named]


def _logprobs(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    value = choice.get("logprobs")
    return value if isinstance(value, dict) else {}


def _entries(logprobs: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The tokens of a chat."""
    for key in ("content", "refusal"):
        yield from logprobs.get(key) or ()


def own_numbers(choices: list[Any]) -> Iterator[float]:
    """The log-probabilities of the tokens of all choices."""
    for choice in choices:
        logprobs = _logprobs(choice)
        for value in logprobs.get("token_logprobs") or ():
            # The first token of an echoed prompt has none.
            if value is not None:
                yield float(value)
        for entry in _entries(logprobs):
            if entry.get("logprob") is not None:
                yield float(entry["logprob"])


def named_tokens(choice: Mapping[str, Any]) -> list[str]:
    """The texts of the tokens that a choice's log-probabilities list."""
    logprobs = _logprobs(choice)
    named = [*(logprobs.get("tokens") or ()), *(each.get("token") for each in _entries(logprobs))]
    return [str(token) for token in named if token is not None]


def _alternatives(output: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    """Of each position that lists tokens: generated ones first, then those of the prompt."""
    choices = output.get("choices", [])
    for choice in choices:
        logprobs = _logprobs(choice)
        for listed in logprobs.get("top_logprobs") or ():
            yield _numbers_by_key(listed or {})
        for entry in _entries(logprobs):
            yield _numbers_of_entries(entry.get("top_logprobs") or ())
    for part in (output, *choices):
        for listed in part.get("prompt_logprobs") or ():
            yield _numbers_by_key(listed or {})


def _numbers_by_key(listed: Mapping[str, Any]) -> dict[str, float]:
    """The legacy form (token -> number), or vLLM's of prompts (token id -> object)."""
    numbers = {
        key: value.get("logprob") if isinstance(value, dict) else value
        for key, value in listed.items()
    }
    return {key: float(each) for key, each in numbers.items() if isinstance(each, float | int)}


def _numbers_of_entries(listed: Any) -> dict[str, float]:
    # Tokens that are not whole characters may share one text, but never their bytes.
    return {
        str(entry.get("bytes") or entry.get("token")): float(entry["logprob"])
        for entry in listed
        if entry.get("logprob") is not None
    }

# SPDX-License-Identifier: Apache-2.0
"""Pure. The canonical form of answers that are no text, and the words, tokens and numbers of any answer.

Vectors, labels, scores and ranked documents are `items`:
`{"kind": "vector", "items": [{"index": 0, "float32": "…"}, …]}`. An item holds its numbers as
`numbers` (a list), or, if they are many, as `float32` (base64 of little-endian float32), and beside
them what stands for words: `index`, `label`, `document`. A protocol makes this form; all that reads
it is here, so that a new protocol needs no other place.
"""

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from ci_doctor.load.choices import NotAnAnswerError, nearest

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

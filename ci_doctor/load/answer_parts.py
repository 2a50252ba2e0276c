# SPDX-License-Identifier: Apache-2.0
"""Pure. A canonical output, divided into words, tokens and numbers.

It works on the output as samples.jsonl holds it, of this version or an earlier one. Two forms are
known: `choices` (completions, chats, responses), and `items`, each with the numbers of its own
(`answer_items`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.load.answer_items import is_wordless, item_numbers, items_of, words_of_item

_NUMBERS = frozenset({"logprobs", "prompt_logprobs"})
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
        numbers: list[float] = []
        for item in items:
            numbers.extend(item_numbers(item))
        rest = _without(output, frozenset({"items"}))
        words = {**rest, "items": [words_of_item(item) for item in items]}
        return AnswerParts(
            words=words, tokens=None, numbers=tuple(numbers), wordless=is_wordless(output)
        )
    choices = output.get("choices", [])
    kept = [_without(choice, _NUMBERS | _TOKENS) for choice in choices]
    return AnswerParts(
        words={**_without(output, _NUMBERS | _TOKENS), "choices": kept},
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
    numbers = {}
    for key, value in listed.items():
        number = value.get("logprob") if isinstance(value, dict) else value
        if isinstance(number, float | int):
            numbers[key] = float(number)
    return numbers


def _numbers_of_entries(listed: Any) -> dict[str, float]:
    numbers = {}
    for entry in listed:
        # Tokens that are not whole characters may share one text, but never their bytes.
        name = str(entry.get("bytes") or entry.get("token"))
        if entry.get("logprob") is not None:
            numbers[name] = float(entry["logprob"])
    return numbers

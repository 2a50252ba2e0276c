# SPDX-License-Identifier: Apache-2.0
"""The generated tokens of a choice, with their log-probabilities where the server told them. Pure.

Three forms are read: `token_ids`, a chat's `logprobs.content[]`, and a completion's `logprobs.tokens` with its parallel
lists (OpenAI's API reference). Servers write anything, so what has another form is taken for not told.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

Choice = Mapping[str, Any]


class Alternative(Struct, frozen=True, kw_only=True):
    """A token that might have been said: its text, its log-probability in nat, and its bytes where they are told."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None

    @property
    def name(self) -> object:
        """What tells it from another: two tokens that are not whole characters may have one text, and never the same bytes."""
        return self.token if self.bytes is None else self.bytes


class Step(Struct, frozen=True, kw_only=True):
    """One generated token; `top` are the most probable ones at its place, the best first. It may stand among them.

    `logprob` is None where the server does not tell it.
    """

    token: str
    logprob: float | None = None
    bytes: tuple[int, ...] | None = None
    top: tuple[Alternative, ...] = ()

    @property
    def name(self) -> object:
        """As an alternative's."""
        return self.token if self.bytes is None else self.bytes


def token_lists(left: Choice, right: Choice) -> tuple[list[Any], list[Any]] | None:
    """The tokens of two choices in the same form, ids before texts; None where one of them tells none."""
    for tokens in (_ids, _texts):
        one, other = tokens(left), tokens(right)
        if one and other:
            return one, other
    return None


def _ids(choice: Choice) -> list[Any]:
    ids = choice.get("token_ids")
    return ids if isinstance(ids, list) else []


def _texts(choice: Choice) -> list[Any]:
    entries = chat_entries(choice)
    if entries:
        return [
            (entry.get("token"), entry.get("bytes")) if isinstance(entry, dict) else None
            for entry in entries
        ]
    return _legacy(choice, "tokens")


def chat_entries(choice: Choice) -> list[Any]:
    """`logprobs.content`, one entry a token; empty where there is none."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return content if isinstance(content, list) else []


def _legacy(choice: Choice, key: str) -> list[Any]:
    logprobs = choice.get("logprobs")
    values = logprobs.get(key) if isinstance(logprobs, dict) else None
    return values if isinstance(values, list) else []


def step(choice: Choice, index: int) -> Step | None:
    """The token at 0-based `index`; None where the choice tells nothing of it.

    Where the server gives both, ids and log-probabilities belong together only if there are as many of each.
    """
    ids, entries, texts = _ids(choice), chat_entries(choice), _legacy(choice, "tokens")
    if ids and len(entries or texts) not in {0, len(ids)}:
        entries, texts = [], []
    if index < len(entries) and isinstance(entries[index], dict):
        return _chat_step(entries[index])
    if index < len(texts):
        return _legacy_step(choice, index, str(texts[index]))
    return Step(token=f"token {ids[index]}") if index < len(ids) else None


def _chat_step(entry: dict[str, Any]) -> Step:
    top = entry.get("top_logprobs")
    return Step(
        token=str(entry.get("token", "")),
        logprob=number(entry.get("logprob")),
        bytes=_bytes(entry.get("bytes")),
        top=_best_first(
            Alternative(
                token=str(each.get("token", "")), logprob=value, bytes=_bytes(each.get("bytes"))
            )
            for each in (top if isinstance(top, list) else [])
            if isinstance(each, dict) and (value := number(each.get("logprob"))) is not None
        ),
    )


def _legacy_step(choice: Choice, index: int, token: str) -> Step:
    own, top = _legacy(choice, "token_logprobs"), _legacy(choice, "top_logprobs")
    alternatives = top[index] if index < len(top) and isinstance(top[index], dict) else {}
    return Step(
        token=token,
        logprob=number(own[index]) if index < len(own) else None,
        top=_best_first(
            Alternative(token=word, logprob=value)
            for word, told in alternatives.items()
            if (value := number(told)) is not None
        ),
    )


def _best_first(alternatives: Any) -> tuple[Alternative, ...]:
    return tuple(sorted(alternatives, key=lambda each: -each.logprob))


def _bytes(told: object) -> tuple[int, ...] | None:
    return (
        tuple(told) if isinstance(told, list) and all(type(each) is int for each in told) else None
    )


def number(told: object) -> float | None:
    """A JSON number as a double; None for anything else, and for an integer beyond all doubles."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    try:
        return float(told)
    except OverflowError:
        return None


def common(left: Sequence[Any], right: Sequence[Any]) -> int:
    """How many items two sequences share from their beginning. By halving, since slices compare fast."""
    least, most = 0, min(len(left), len(right))
    while least < most:
        middle = (least + most + 1) // 2
        if left[least:middle] == right[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least

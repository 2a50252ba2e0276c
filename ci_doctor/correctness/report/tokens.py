# SPDX-License-Identifier: Apache-2.0
"""The generated tokens of a choice, with their log-probabilities if the server reports them. Pure.

Three forms are read: `token_ids`, a chat's `logprobs.content[]`, and a completion's
`logprobs.tokens` with its parallel lists (OpenAI's API reference). Servers write anything into
these fields. A value of any other form counts as absent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

Choice = Mapping[str, Any]


class Alternative(Struct, frozen=True, kw_only=True):
    """A candidate token: its text, its log-probability in nat, and its bytes if reported."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None

    @property
    def name(self) -> object:
        """What identifies the token.

        Tokens that are not whole characters may share one text (U+FFFD), but never their bytes.
        """
        return self.token if self.bytes is None else self.bytes


class Step(Struct, frozen=True, kw_only=True):
    """One generated token and its alternatives.

    `top` are the most probable tokens at this position, the best first. The token itself may be one
    of them. `logprob` is in nat, None if the server does not report it.
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
    """The tokens of two choices in the same form; None if one of them reports none.

    Ids come before texts: two ids may decode to one text.
    """
    for tokens in (_ids, _texts):
        one = tokens(left)
        other = tokens(right)
        if one and other:
            return one, other
    return None


def _ids(choice: Choice) -> list[Any]:
    ids = choice.get("token_ids")
    return ids if isinstance(ids, list) else []


def _texts(choice: Choice) -> list[Any]:
    entries = chat_entries(choice)
    if not entries:
        return _legacy(choice, "tokens")
    texts: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            texts.append((entry.get("token"), entry.get("bytes")))
        else:
            texts.append(None)
    return texts


def chat_entries(choice: Choice) -> list[Any]:
    """`logprobs.content`, one entry a token; empty if there is none."""
    return _legacy(choice, "content")


def _legacy(choice: Choice, key: str) -> list[Any]:
    """One of the lists under `logprobs`."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return []
    values = logprobs.get(key)
    return values if isinstance(values, list) else []


def step(choice: Choice, index: int) -> Step | None:
    """The token at 0-based `index`; None if the choice reports nothing for it."""
    ids = _ids(choice)
    entries = chat_entries(choice)
    texts = _legacy(choice, "tokens")
    # Ids and log-probabilities are matched by position. That holds only for lists of one length: a
    # server may count a stop token in one list and not in the other.
    if ids and len(entries or texts) not in {0, len(ids)}:
        entries = []
        texts = []
    if index < len(entries) and isinstance(entries[index], dict):
        return _chat_step(entries[index])
    if index < len(texts):
        return _legacy_step(choice, index, str(texts[index]))
    if index < len(ids):
        return Step(token=f"token {ids[index]}")
    return None


def _chat_step(entry: dict[str, Any]) -> Step:
    alternatives = []
    listed = entry.get("top_logprobs")
    if isinstance(listed, list):
        for each in listed:
            alternative = _chat_alternative(each)
            if alternative is not None:
                alternatives.append(alternative)
    return Step(
        token=str(entry.get("token", "")),
        logprob=number(entry.get("logprob")),
        bytes=_bytes(entry.get("bytes")),
        top=_best_first(alternatives),
    )


def _chat_alternative(entry: object) -> Alternative | None:
    if not isinstance(entry, dict):
        return None
    logprob = number(entry.get("logprob"))
    if logprob is None:
        return None
    return Alternative(
        token=str(entry.get("token", "")),
        logprob=logprob,
        bytes=_bytes(entry.get("bytes")),
    )


def _legacy_step(choice: Choice, index: int, token: str) -> Step:
    alternatives = []
    listed = _item(_legacy(choice, "top_logprobs"), index)
    if isinstance(listed, dict):
        for word, value in listed.items():
            logprob = number(value)
            if logprob is not None:
                alternatives.append(Alternative(token=word, logprob=logprob))
    own = _item(_legacy(choice, "token_logprobs"), index)
    return Step(token=token, logprob=number(own), top=_best_first(alternatives))


def _item(values: list[Any], index: int) -> Any:
    # The parallel lists of a completion need not have one length.
    if index < len(values):
        return values[index]
    return None


def _best_first(alternatives: list[Alternative]) -> tuple[Alternative, ...]:
    return tuple(sorted(alternatives, key=lambda each: -each.logprob))


def _bytes(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    # `type`, not isinstance: True is an int to Python, and no byte.
    if any(type(each) is not int for each in value):
        return None
    return tuple(value)


def number(value: object) -> float | None:
    """A JSON number as a double; None for anything else, and for an integer beyond all doubles."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def common(left: Sequence[Any], right: Sequence[Any]) -> int:
    """The length of the longest common prefix of two sequences."""
    # Bisection: comparing two slices is one call in C, a loop over ten million characters is not.
    least = 0
    most = min(len(left), len(right))
    while least < most:
        middle = (least + most + 1) // 2
        if left[least:middle] == right[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least

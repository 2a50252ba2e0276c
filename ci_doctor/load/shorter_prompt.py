# SPDX-License-Identifier: Apache-2.0
"""A copy of a request with a part of its prompt, or with another one in its place. Pure.

A text is measured in characters, a list of token ids in tokens. Of a chat, the last message is cut,
and the others stay. Other prompts (several at once, parts with pictures) have no length here.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.load.prompts import PROMPT_KEYS
from ci_doctor.load.requests import Request

Cut = str | list[int]


class PromptLength(Struct, frozen=True, kw_only=True):
    """How long a prompt is, and in what that is measured (`characters` or `tokens`)."""

    count: int
    unit: str


def prompt_length(request: Request) -> PromptLength | None:
    """The length of what `with_prompt` changes; None if the prompt cannot be cut."""
    prompt_cut = _cut_of(request.body)
    if prompt_cut is None:
        return None
    _, cut = prompt_cut
    unit = "characters" if isinstance(cut, str) else "tokens"
    return PromptLength(count=len(cut), unit=unit)


def with_prompt(request: Request, change: Callable[[Cut], Cut]) -> Request:
    """The request with what `change` makes of its prompt.

    Raises ValueError if the prompt cannot be cut.
    """
    prompt_cut = _cut_of(request.body)
    if prompt_cut is None:
        raise ValueError(f"the prompt of {request.id} cannot be cut")
    key, cut = prompt_cut
    changed: Any = change(cut)
    if key == "messages":
        messages = request.body[key]
        changed = [*messages[:-1], {**messages[-1], "content": changed}]
    return replace(request, body={**request.body, key: changed})


def halved(count: int, most: int) -> Iterator[int]:
    """At most `most` lengths below `count`, each half of the one before, down to 1."""
    for _ in range(most):
        count //= 2
        if count < 1:
            return
        yield count


def _cut_of(body: dict[str, Any]) -> tuple[str, Cut] | None:
    """The key of the prompt, and what of it can be cut."""
    for key in PROMPT_KEYS:
        value = body.get(key)
        if key == "messages" and isinstance(value, list) and value:
            value = value[-1].get("content") if isinstance(value[-1], dict) else None
        cut = _cuttable(value)
        if cut is not None:
            return key, cut
    return None


def _cuttable(value: Any) -> Cut | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        return value
    return None

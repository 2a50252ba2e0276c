# SPDX-License-Identifier: Apache-2.0
"""A copy of a request with a changed prompt, for a control. Pure.

Three ways lead to a changed prompt. The first keeps the words, in reverse order, and adds a sentence.
The second keeps nothing, and is short: a prompt at the limit of the context stays within it. A third
one keeps the length, both ends and the number of words, and changes what is between.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from ci_doctor.load.prompts import PROMPT_KEYS
from ci_doctor.load.requests import Request

# Any sentence that no requests file is likely to hold.
_SENTENCE = "Now name three rivers that flow into the Baltic Sea."
# A model goes on with it, whatever it answered to the original.
_OTHER_PROMPT = "Continue this list: copper, silver, zinc, tin,"

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NEXT_LETTER = str.maketrans(
    _LETTERS + _LETTERS.upper(), _LETTERS[1:] + "a" + _LETTERS[1:].upper() + "A"
)


class PromptChange(StrEnum):
    """How a prompt is changed."""

    REVERSED = "reversed"
    REPLACED = "replaced"
    INSIDE = "inside"


def changed_body(request: Request, change: PromptChange) -> dict[str, Any] | None:
    """The body with another prompt and the same parameters; None if there is no known prompt."""
    body = request.body
    for key in PROMPT_KEYS:
        value = _changed(body.get(key), change)
        if value is not None:
            return {**body, key: value}
    return None


def _changed(value: Any, change: PromptChange) -> Any:
    """A prompt in any form that an API takes; None if it is in none of them."""
    if isinstance(value, str):
        return _TEXT[change](value)
    if not isinstance(value, list) or not value:
        return None
    if all(type(each) is int for each in value):
        return _changed_tokens(value, change)
    if all(isinstance(each, dict) for each in value):
        return _changed_messages(value, change)
    # Several prompts: one answer each is still expected.
    changed = [_changed(each, change) for each in value]
    return None if None in changed else changed


def _reversed(text: str) -> str:
    words = reversed(text.split())
    return " ".join([*words, _SENTENCE])


def _replaced(_text: str) -> str:
    return _OTHER_PROMPT


def _inside(text: str) -> str:
    """Other letters in the middle third; in all but the ends if it has no letters."""
    for part in (len(text) // 3, 1, 0):
        middle = text[part : len(text) - part]
        changed = text[:part] + middle.translate(_NEXT_LETTER) + text[len(text) - part :]
        if changed != text:
            return changed
    # Letters of another script.
    return text[:1] + text[-2:0:-1] + text[-1:]


_TEXT: Mapping[PromptChange, Callable[[str], str]] = {
    PromptChange.REVERSED: _reversed,
    PromptChange.REPLACED: _replaced,
    PromptChange.INSIDE: _inside,
}


def _changed_tokens(tokens: list[int], change: PromptChange) -> list[int]:
    """Token ids of the same model: no other ids than those of the prompt are known to exist."""
    changed = tokens[::-1]
    if change is PromptChange.INSIDE:
        third = len(tokens) // 3
        middle = tokens[third : len(tokens) - third]
        changed = [*tokens[:third], *middle[::-1], *tokens[len(tokens) - third :]]
        # What is the same in both directions gets a token of one end in its middle.
        if changed == tokens and len(set(tokens)) > 1:
            other = next(each for each in tokens if each != middle[0])
            changed = [*tokens[:third], *[other] * len(middle), *tokens[len(tokens) - third :]]
    if change is PromptChange.REPLACED:
        changed = changed[: len(changed) // 2] or changed * 3
    # Reversed, the same token again and again is the same prompt.
    return changed if changed != tokens else [*tokens, tokens[0]]


def _changed_messages(messages: list[dict[str, Any]], change: PromptChange) -> Any:
    """A chat whose last message of the user is another one."""
    place = _last_of_user(messages)
    content = _changed_content(messages[place].get("content"), change)
    if content is None:
        return None
    message = {**messages[place], "content": content}
    # All others stay: a server may read these and ignore what the user wrote.
    return [*messages[:place], message, *messages[place + 1 :]]


def _last_of_user(messages: list[dict[str, Any]]) -> int:
    """The place of the last message of the user; of the last one if there is none."""
    for place in reversed(range(len(messages))):
        if messages[place].get("role") == "user":
            return place
    return len(messages) - 1


def _changed_content(content: Any, change: PromptChange) -> Any:
    """The content of a message: a text, or parts of which some are texts."""
    if isinstance(content, str):
        return _TEXT[change](content)
    if not isinstance(content, list):
        return None
    parts = []
    is_changed = False
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part = {**part, "text": _TEXT[change](part["text"])}  # noqa: PLW2901 - the changed one
            is_changed = True
        parts.append(part)
    # A picture alone has no words.
    return parts if is_changed else None

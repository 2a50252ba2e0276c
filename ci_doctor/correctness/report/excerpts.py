# SPDX-License-Identifier: Apache-2.0
"""What a person reads of a choice, part by part, and the text around a difference. Pure."""

import json
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.tokens import Choice, common

_MESSAGE_PARTS = ("reasoning_content", "reasoning", "content", "refusal")


class TextExcerpt(Struct, frozen=True, kw_only=True):
    """`before` is the text that both sides share, `left` and `right` follow it; all are cut."""

    before: str
    left: str
    right: str


def around(left: str, right: str, width: int) -> TextExcerpt:
    """The first difference of two texts, with `width` characters before and after."""
    at = common(left, right)
    begin = max(0, at - width)
    end = at + width
    return TextExcerpt(
        before=encodable(left[begin:at]),
        left=encodable(left[at:end]),
        right=encodable(right[at:end]),
    )


def encodable(text: str) -> str:
    """`text` in a form that UTF-8 can hold: a model may generate half of a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def as_json(value: object) -> str:
    """A value as canonical JSON."""
    return json.dumps(value, sort_keys=True)


def parts_of(choice: Choice) -> dict[str, str]:
    """What a person reads of a choice: text, reasoning, content, refusal, tool calls, by name."""
    values = {"text": choice.get("text")}
    message = choice.get("message")
    if isinstance(message, dict):
        for name in _MESSAGE_PARTS:
            values[name] = message.get(name)
        values.update(_call_parts(message.get("tool_calls")))
    parts = {}
    for name, value in values.items():
        if isinstance(value, str):
            parts[name] = value
        elif value is not None:
            parts[name] = as_json(value)
    return parts


def _call_parts(calls: object) -> dict[str, Any]:
    """The name and the arguments of each tool call."""
    parts: dict[str, Any] = {}
    if not isinstance(calls, list):
        return parts
    for index, call in enumerate(calls):
        path = f"tool_calls[{index}]"
        parts[f"{path}.name"] = call.get("name")
        parts[f"{path}.arguments"] = call.get("arguments")
    return parts


def whole_text(choice: Choice) -> str:
    """All parts of a choice, in lines."""
    return "\n".join(parts_of(choice).values())


def differing_part(left: Choice, right: Choice) -> str:
    """The name of the first part in which two choices differ, or else of the first part."""
    one = parts_of(left)
    other = parts_of(right)
    names = list(one | other)
    for name in names:
        if one.get(name) != other.get(name):
            return name
    # Equal texts and other tokens: the same words, cut into tokens in another way.
    if names:
        return names[0]
    return "token_ids"

# SPDX-License-Identifier: Apache-2.0
"""Pure. One choice of an answer, reduced to what is compared.

Its shape has been checked before (`schema`). Streamed and whole answers must come out the same: what one form writes as "" or [] and
the other omits is omitted.
"""

from collections.abc import Sequence
from typing import Any

from ci_doctor.load.logprobs import as_float32, comparable

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
    part: dict[str, Any] = {}
    for key in keys:
        each = value.get(key)
        if each not in omitted:
            part[key] = each
    return part


def is_empty(choice: dict[str, Any]) -> bool:
    """Whether a compared choice holds no text, reasoning, tool call or token."""
    if choice.get("text") or choice.get("token_ids"):
        return False
    message = choice.get("message", {})
    return not any(map(message.get, _CONTENT_KEYS))


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """The parts of a chat's message; without a role it is the assistant's, who alone answers."""
    part: dict[str, Any] = {"role": "assistant"}
    part |= _filled(message, MESSAGE_KEYS, (None, ""))
    calls = _calls(message)
    if calls:
        part["tool_calls"] = [_tool_call(call) for call in calls]
    return part


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool calls; the legacy `function_call` counts as one."""
    calls: list[dict[str, Any]] = message.get("tool_calls") or []
    if not calls and message.get("function_call"):
        return [message["function_call"]]
    return calls


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    """Name and raw arguments; the call's id is random. Raises NotAnAnswerError without a name."""
    # The legacy `function_call` is the function itself.
    function = call.get("function") or call.get("custom") or call
    part = {}
    for key in ("name", "arguments"):
        value = function.get(key)
        # "" and an absent key are the same in a stream, so they are here.
        if value == "":
            value = None
        part[key] = value
    if function.get("input"):  # of a custom tool, which has no arguments
        part["input"] = function["input"]
    if part["name"] is None:
        raise NotAnAnswerError("a tool call does not name its tool")
    return part

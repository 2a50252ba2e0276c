# SPDX-License-Identifier: Apache-2.0
"""Pure. `/v1/responses`: OpenAI's Responses API, in one piece or as events; vLLM serves it, too.

An answer is a list of items (`output`): messages of parts, reasoning, calls of tools. Each part of
text and each call becomes a choice of the canonical form, in the order of the answer, so that
everything that compares and shows choices serves it, too. `finish_reason` is `completed`, or the
reason why the answer is incomplete.
"""

from collections.abc import Iterator
from typing import Any

from ci_doctor.load.canonical import Canonical, as_object, encode
from ci_doctor.load.choice_answers import canonicalise_value
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols.protocol import Protocol, RequestBody
from ci_doctor.load.protocols.response_events import STREAMED_TEXT, folded_response

# Of a call of a tool that the server made itself: what differs from call to call by design.
_NOT_COMPARED = frozenset({"id", "call_id", "status", "container_id"})
_TEXTS = ("output_text", "text", None)
_COUNTS = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}

Choice = dict[str, Any]
Part = dict[str, Any]


def read(value: Any, _body: RequestBody) -> Canonical:
    """The answer of a response object."""
    response = as_object(value)
    ending = _ending(response)
    choices: list[Choice] = []
    for item in _parts(response, "output"):
        choices.extend(_choices(item))
    streamed = response.get(STREAMED_TEXT)
    if streamed is not None:
        choices.append({"text": streamed})
    if not choices:
        # An answer without any item is an answer, and counts as empty.
        choices.append({"message": {}})
    for index, choice in enumerate(choices):
        choice |= {"index": index, **ending}
    return canonicalise_value({**response, "choices": choices, "usage": _usage(response)})


def _ending(response: Part) -> Part:
    """Why the answer ended, as the part of a choice. Raises NotAnAnswerError if it has not."""
    status = response.get("status")
    if status is None:
        return {}
    if status == "completed":
        return {"finish_reason": status}
    if status == "incomplete":
        # The token limit or a filter: whole, as with the finish reasons "length" and its like.
        details = response.get("incomplete_details") or {}
        reason = details.get("reason") if isinstance(details, dict) else None
        return {"finish_reason": reason or status}
    raise NotAnAnswerError(f"the answer is not finished: its `status` is {str(status)[:40]}")


def _parts(of: Part, key: str) -> list[Part]:
    """The list of objects at `key`; none if it is absent or null. Raises NotAnAnswerError."""
    values = of.get(key)
    if values is None and key != "output":
        return []
    if not isinstance(values, list):
        raise NotAnAnswerError(f"outside the API's schema: `{key}` is not a list")
    for part in values:
        if not isinstance(part, dict):
            raise NotAnAnswerError(f"outside the API's schema: `{key}` holds what is no object")
    return values


def _choices(item: Part) -> Iterator[Choice]:
    """The choices of one item: one for each part of a message, one for anything else."""
    kind = item.get("type")
    if kind == "message":
        for part in _parts(item, "content"):
            yield _text_choice(part)
    elif kind == "reasoning":
        yield {"message": {"reasoning": _joined(item, "content")}}
        if item.get("summary"):
            yield {"message": {"reasoning_content": _joined(item, "summary")}}
    elif kind in {"function_call", "custom_tool_call"}:
        call = {key: item.get(key) for key in ("name", "arguments", "input")}
        yield {"message": {"tool_calls": [call]}}
    else:
        rest = {key: value for key, value in item.items() if key not in _NOT_COMPARED}
        call = {"name": str(kind), "arguments": encode(rest).decode("ascii")}
        yield {"message": {"tool_calls": [call]}}


def _text_choice(part: Part) -> Choice:
    kind = part.get("type")
    if kind == "refusal":
        return {"message": {"refusal": part.get("refusal")}}
    if kind not in _TEXTS:
        # Audio and whatever comes later must not be left out without a word.
        raise NotAnAnswerError(f"a part of type {str(kind)[:40]} cannot be compared")
    choice: Choice = {"message": {"content": part.get("text")}}
    if part.get("logprobs"):
        # Entries of the same shape as a chat's.
        choice["logprobs"] = {"content": part["logprobs"]}
    return choice


def _joined(item: Part, key: str) -> str:
    texts = []
    for part in _parts(item, key):
        text = part.get("text")
        if not isinstance(text, str):
            raise NotAnAnswerError(f"outside the API's schema: `{key}` holds a part without `text`")
        texts.append(text)
    return "\n".join(texts)


def _usage(response: Part) -> Any:
    """The usage with the names that the other protocols give its counts."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return usage
    return {_COUNTS.get(key, key): value for key, value in usage.items()}


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and value.get("object") == "response"


RESPONSES = Protocol(
    name="responses",
    paths=("/responses",),
    read=read,
    recognises=_recognises,
    fold=folded_response,
    sampled=True,
)

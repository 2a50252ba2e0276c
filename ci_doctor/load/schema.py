# SPDX-License-Identifier: Apache-2.0
"""Pure. The shapes of completions and chats: OpenAI's schema, and what other servers add to it.

Read from OpenAI's API reference (completions and chat completions, whole and in chunks), vLLM's
`entrypoints/openai/protocol.py`, SGLang's `srt/entrypoints/openai/protocol.py`, TGI's
`router/src/lib.rs`, llama.cpp's `tools/server` and LMCache's `disagg_proxy_server.py`. Every field
that is compared has a type here. Fields without a place here are not compared, and may hold
anything. A `finish_reason` may be any word: servers have their own (TGI's `eos_token`).

Other endpoints have other shapes, which a protocol reads. What a protocol makes of them
and calls `choices` has a shape of this one, too. JSON that two readers may take in different ways is none.
"""

import json
import math
from collections import Counter
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ci_doctor.decodable import decodable


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON text (RFC 8259).

    Raises ValueError, with the reason, for what is not JSON, for NaN, Infinity and numbers beyond
    all doubles, for text that is not Unicode, for a key that stands twice in one object (one reader takes the first, one the
    last), and for nesting too deep to read.
    """
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_only_once,
        )
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(written: str) -> float:
    number = float(written)
    if math.isinf(number):
        raise ValueError(
            f"{written[:80]} is beyond all doubles, and cannot be written as JSON again"
        )
    return number


def _only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The parser itself keeps the last of equal keys, without a word.
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    (repeated, _), *_ = Counter(key for key, _ in pairs).most_common(1)
    # Cut off: a key may be as long as the whole text.
    raise ValueError(f"the key {json.dumps(repeated)[:80]} stands twice in one object")


Tokens = list[int] | None
Stop = int | str | list[int] | None  # the text, the token or (SGLang) the tokens that stopped it
Empty = Annotated[list[Any], Meta(max_length=0)]


# gc=False: the values hold no cycles, and the collector would look at each of a hundred thousand.
class TokenEntrySchema(Struct, gc=False):
    """One token in a chat's log-probabilities; its alternatives have the same shape."""

    token: str | None = None
    logprob: float | None = None
    bytes: Tokens = None
    top_logprobs: "list[TokenEntrySchema] | None" = None


class LogprobsSchema(Struct, gc=False):
    """Log-probabilities: lists side by side for completions, `content` and `refusal` for chats."""

    content: list[TokenEntrySchema] | None = None
    refusal: list[TokenEntrySchema] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    text_offset: list[int] | None = None
    top_logprobs: list[dict[str, float | None] | None] | None = None


PromptLogprobs = list[dict[str, Any] | None] | None


class ToolCallSchema(Struct, gc=False):
    """A call of a tool: of a `function`, or of a `custom` one, whose `input` is free text.

    TGI writes the arguments as an object, the others as its text. As ci-doctor keeps it, name and
    arguments stand in the call itself.
    """

    index: int | None = None
    function: "ToolCallSchema | None" = None
    custom: "ToolCallSchema | None" = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    input: str | None = None


class MessageSchema(Struct, gc=False):
    """What a chat's assistant writes: the message of an answer, or one chunk's `delta` of it."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    audio: dict[str, Any] | None = None
    tool_calls: list[ToolCallSchema] | None = None
    function_call: ToolCallSchema | None = None


class ChoiceSchema(Struct, gc=False):
    """One choice: of an answer in one piece (`text` or `message`), or of a chunk (`text`, `delta`).

    `finish_reason` is null until a choice is finished.
    """

    index: int = 0
    text: str | None = None
    message: MessageSchema | None = None
    delta: MessageSchema | None = None
    finish_reason: str | UnsetType | None = UNSET
    stop_reason: Stop = None
    matched_stop: Stop = None
    token_ids: Tokens = None
    logprobs: LogprobsSchema | Empty | None = None
    prompt_logprobs: PromptLogprobs = None


class AnswerSchema(Struct, gc=False):
    """An answer in one piece, or one chunk of a stream.

    `usage` is read by itself: what is wrong with a count has a sentence of its own.
    """

    choices: list[ChoiceSchema] | None = None
    object: str | None = None
    model: str | None = None
    usage: Any = None
    prompt_logprobs: PromptLogprobs = None


def problem(value: Any) -> str | None:
    """What is wrong with the shape of a parsed answer or chunk; None if nothing is."""
    try:
        msgspec.convert(value, decodable(AnswerSchema))
    except msgspec.ValidationError as error:
        expected, _, place = str(error).partition(" - at `$")
        place = place.strip("`.")
        if place:
            return f"`{place}`: {expected}"
        return expected
    except UnicodeEncodeError:
        return "a key is not Unicode"
    except RecursionError:
        return "nested too deep"
    return None

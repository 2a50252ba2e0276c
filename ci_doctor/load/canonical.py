# SPDX-License-Identifier: Apache-2.0
"""Pure. The canonical form of an answer: what is compared, divided from what is not.

Compared: what the model wrote, why it stopped, and the numbers it gave. Left out, and kept as
`meta`: what differs from call to call by design (ids, times, fingerprints, cache statistics). A
protocol makes the form (`protocols`); what reads it is here, and knows its two shapes: `choices`
of texts, and `items` of numbers (`answer_items`).
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ci_doctor.load import schema
from ci_doctor.load.answer_items import (
    ItemKind,
    NotAnAnswerError,
    as_float32,
    check_items,
    compared_choice,
    index_of,
    is_empty,
    is_zero,
    item_text,
    items_of,
)

META_KEYS = (
    "id",
    "created",
    "created_at",
    "system_fingerprint",
    "service_tier",
    "metrics",
    "kv_transfer_params",
    "ec_transfer_params",
)
_COUNTS = ("completion_tokens", "prompt_tokens")
_READABLE = ("reasoning_content", "reasoning", "content", "refusal")


class Canonical(Struct, frozen=True, kw_only=True):
    """`output` is compared, `digest` is the SHA-256 of it as canonical JSON, `meta` is the rest.

    `prompt_facts` is the request as the server reports it (model, prompt tokens): arms that differ
    here did not get the same request.
    `empty`: no choice holds any text, reasoning or tool call.
    """

    output: dict[str, Any]
    digest: str
    meta: dict[str, Any]
    prompt_facts: dict[str, Any]
    empty: bool


# The body of a request; None if it is not known, as with collected answers.
RequestBody = Mapping[str, Any] | None


class Protocol(Struct, frozen=True, kw_only=True):
    """`paths` are the endings of the paths that it serves, `/v1` and the like left out.

    `read` makes the canonical form of a parsed 200 response and raises NotAnAnswerError if it is
    no whole answer. `fold` makes one such response of the body of a stream, and raises the same;
    None: its answers are never streamed. `recognises` tells its responses from those of others.
    `sampled`: the model draws tokens, so that `temperature` matters. `prompted`: a request holds a
    prompt, and its answer depends on it.
    """

    name: str
    paths: tuple[str, ...]
    read: Callable[[Any, RequestBody], Canonical]
    recognises: Callable[[Any], bool]
    fold: Callable[[bytes], Any] | None = None
    sampled: bool = False
    prompted: bool = True


def checked_choices(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices of an answer or an output. Raises NotAnAnswerError if they are not whole."""
    problem = schema.problem(value)
    if problem is not None:
        raise NotAnAnswerError(f"outside the API's schema: {problem}")
    choices = value.get("choices")
    if not choices:
        raise NotAnAnswerError("no `choices` in the answer")
    for choice in choices:
        # null is the API's word for a choice that is not finished. Some servers write "".
        if "finish_reason" in choice and not choice["finish_reason"]:
            written = json.dumps(choice["finish_reason"])
            raise NotAnAnswerError(f"the answer is not finished: its `finish_reason` is {written}")
    checked: list[dict[str, Any]] = choices
    return checked


def check_output(output: dict[str, Any]) -> None:
    """Raises NotAnAnswerError for an `output` that no answer can have been divided into.

    It may have been written by another program.
    """
    items = items_of(output)
    if items is not None:
        check_items(output)
        return
    for choice in checked_choices(output):
        # A text that was null is left out of an output, whose choices have an index: it is empty.
        compared_choice({"text": None, **choice} if "index" in choice else choice)
    usage_of({"completion_tokens": output.get("completion_tokens")})


def meta_of(value: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    """What differs from call to call by design, kept beside the answer."""
    meta = {key: value[key] for key in META_KEYS if key in value}
    if usage:
        meta["usage"] = usage
    return meta


def usage_of(value: object) -> dict[str, Any]:
    """The counts of a `usage`. Raises NotAnAnswerError for what is no count.

    It would differ from a count, and count as another answer.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotAnAnswerError("`usage` is not an object")
    # null stands for a count that the server does not give.
    usage = {key: count for key, count in value.items() if count is not None}
    for key in _COUNTS:
        count = usage.get(key, 0)
        # By type: True is an int.
        if type(count) is not int or count < 0:
            raise NotAnAnswerError(f"`usage.{key}` is no count: {json.dumps(count)[:40]}")
    return usage


def encode(output: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, ASCII. A JSON number decodes to one double exactly.

    Raises NotAnAnswerError for what cannot be written again, as a number beyond all doubles
    (`1e999`).
    """
    try:
        text = json.dumps(output, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise NotAnAnswerError(f"cannot be written as JSON again: {error}") from error
    return text.encode("ascii")


def digest(output: Any) -> str:
    """SHA-256 of `encode(output)`, in hex."""
    encoded = encode(output)
    return hashlib.sha256(encoded).hexdigest()


def text_of(output: dict[str, Any]) -> str:
    """The text of an output for people, all choices in order; of items, their numbers."""
    items = items_of(output)
    if items is not None:
        return "\n".join(map(item_text, items))
    parts: list[str] = []
    choices = output.get("choices", [])
    for choice in choices:
        parts += _readable_parts(choice)
    return "\n".join(parts)


def is_empty_output(output: dict[str, Any]) -> bool:
    """Whether an output holds no text, no tool call and no token; of vectors: nothing but zeros."""
    if items_of(output) is not None:
        return is_zero(output)
    for choice in output["choices"]:
        if choice.get("token_ids") or text_of({"choices": [choice]}):
            return False
    return True


def is_blank(output: dict[str, Any]) -> bool:
    """Whether an output holds no word and no tool call.

    Token ids are no words: those of padding give no text. A vector of zeros says nothing either.
    """
    if items_of(output) is not None:
        return is_zero(output)
    return not text_of(output).strip()


def _readable_parts(choice: dict[str, Any]) -> Iterator[str]:
    if choice.get("text") is not None:
        yield str(choice["text"])
    message = choice.get("message", {})
    for key in _READABLE:
        if message.get(key):
            yield str(message[key])
    for call in message.get("tool_calls", []):
        yield json.dumps(call, sort_keys=True, ensure_ascii=False)


def canonicalise_value(value: Any, expected: int | None = None) -> Canonical:
    """Divide a parsed 200 response to a request for `expected` choices (None: unknown).

    Raises NotAnAnswerError if it is not a whole answer. Log-probabilities are taken as float32
    (see `choices`), every other number as it stands.
    """
    answer = schema.as_object(value)
    choices = checked_choices(answer)
    if expected is not None and len(choices) != expected:
        raise NotAnAnswerError(f"{len(choices)} choices in the answer, {expected} were requested")
    try:
        return _divided(answer, sorted(choices, key=index_of))
    except RecursionError as error:
        raise NotAnAnswerError("nested too deep") from error


def _divided(value: dict[str, Any], choices: Sequence[dict[str, Any]]) -> Canonical:
    usage = usage_of(value.get("usage"))
    compared = [compared_choice(choice) for choice in choices]
    output: dict[str, Any] = {"choices": compared}
    if "completion_tokens" in usage:
        output["completion_tokens"] = usage["completion_tokens"]
    if value.get("prompt_logprobs") is not None:
        output["prompt_logprobs"] = as_float32(value["prompt_logprobs"])
    return Canonical(
        output=output,
        digest=digest(output),
        meta=meta_of(value, usage),
        prompt_facts=_facts_of_choices(value, usage, choices),
        empty=all(map(is_empty, compared)),
    )


def _facts_of_choices(
    value: dict[str, Any], usage: dict[str, Any], choices: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The request as the server reports it.

    vLLM has a chat's prompt tokens beside the choices, and a completion's in them.
    """
    facts = _facts_of_items(value, usage)
    ids = [part.get("prompt_token_ids") for part in (value, *choices)]
    if ids.count(None) < len(ids):
        facts["prompt_token_ids"] = ids
    return facts


Item = dict[str, Any]


def listed(value: Any, key: str) -> list[Item]:
    """The objects in the list at `key` of a response. Raises NotAnAnswerError without any."""
    values = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(values, list) or not values:
        raise NotAnAnswerError(f"no `{key}` in the answer")
    for place, each in enumerate(values):
        if not isinstance(each, dict):
            raise NotAnAnswerError(f"`{key}[{place}]` is not an object")
    return values


def count_texts(texts: Any) -> int | None:
    """How many texts a part of a request holds; None if unknown. A list of token ids is one."""
    if isinstance(texts, list) and texts:
        return 1 if isinstance(texts[0], int) else len(texts)
    return 1 if isinstance(texts, str) else None


def place_of(part: Item, at: int) -> int:
    """The `index` of one object, or else its place `at` in the list. Raises NotAnAnswerError."""
    index = part.get("index")
    if index is None:
        return at
    # By type: True is an int.
    if type(index) is not int or index < 0:
        raise NotAnAnswerError(f"the `index` of object {at} of the answer is no place in a list")
    return index


def in_order(items: list[Item], expected: int | None) -> list[Item]:
    """Items by their index: each place from 0 on once, `expected` in all (None: unknown)."""
    ordered = sorted(items, key=lambda item: item["index"])
    places = [item["index"] for item in ordered]
    if places != list(range(len(places))):
        raise NotAnAnswerError(f"the places of the answer are {places[:20]}, not each one once")
    if expected is not None and len(items) != expected:
        raise NotAnAnswerError(f"{len(items)} results in the answer, {expected} were requested")
    return ordered


def canonical_items(kind: ItemKind, items: list[Item], value: Any) -> Canonical:
    """The canonical form of `items`; `value` is the response that they come from.

    Raises NotAnAnswerError if there are none: of no vectors all are equal.
    """
    if not items:
        raise NotAnAnswerError(f"no {kind} in the answer")
    response: dict[str, Any] = value if isinstance(value, dict) else {}
    usage = usage_of(response.get("usage"))
    output = {"kind": str(kind), "items": items}
    return Canonical(
        output=output,
        digest=digest(output),
        meta=meta_of(response, usage),
        prompt_facts=_facts_of_items(response, usage),
        empty=is_zero(output),
    )


def _facts_of_items(response: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    """The request as the server reports it: only what is the same whenever the same is sent."""
    facts = {}
    if response.get("model") is not None:
        facts["model"] = response["model"]
    if "prompt_tokens" in usage:
        facts["prompt_tokens"] = usage["prompt_tokens"]
    return facts

# SPDX-License-Identifier: Apache-2.0
"""Pure. `/v1/completions`: `choices` with `text`, as OpenAI's API reference and vLLM have them."""

from typing import Any

from ci_doctor.load.canonical import Canonical
from ci_doctor.load.choice_answers import canonicalise_value
from ci_doctor.load.protocols.protocol import Protocol, RequestBody
from ci_doctor.load.streamed import folded


def expected_choices(body: RequestBody) -> int | None:
    """How many choices an answer must have: `n` for each prompt; None if unknown."""
    if body is None:
        return None
    each = body.get("n") or 1
    if not isinstance(each, int) or "prompt_embeds" in body:
        return None
    if not {"prompt", "messages"} & body.keys():
        return None
    return each * _count_prompts(body.get("prompt"))


def _count_prompts(prompt: Any) -> int:
    """A list holds prompts, unless it is one prompt as token ids."""
    if not isinstance(prompt, list) or not prompt:
        return 1
    if isinstance(prompt[0], int):
        return 1
    return len(prompt)


def read(value: Any, body: RequestBody) -> Canonical:
    """The answer of a completion or a chat: a server behind a proxy may give either form."""
    return canonicalise_value(value, expected_choices(body))


def has_choices(value: Any) -> bool:
    """Whether a response has the form of both."""
    return isinstance(value, dict) and "choices" in value


COMPLETIONS = Protocol(
    name="completions",
    paths=("/completions",),
    read=read,
    recognises=has_choices,
    fold=folded,
    sampled=True,
)

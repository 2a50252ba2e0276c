# SPDX-License-Identifier: Apache-2.0
"""What a request asks, and how much it leaves to the model. Pure."""

from collections.abc import Mapping
from typing import Any

from ci_doctor.load.answers import protocol_of
from ci_doctor.load.requests import Request

# The keys under which the APIs take a prompt. Completions, chats, embeddings and responses,
# rerank, vLLM's scores, and the own APIs of text-generation-inference and SGLang.
PROMPT_KEYS = (
    "messages",
    "prompt",
    "input",
    "query",
    "queries",
    "text_1",
    "data_1",
    "inputs",
    "text",
)
# Where these two have what other APIs have beside the prompt.
_NESTED = ("parameters", "sampling_params")
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens")
# What binds a model to a form or to a choice: OpenAI's, vLLM's, SGLang's and llama.cpp's names.
_RESTRICTIONS = (
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "json_schema",
    "regex",
    "ebnf",
    "grammar",
    "logit_bias",
    "allowed_token_ids",
)
_FREE_CHOICE = (None, "none", "auto")
# With fewer tokens, two prompts easily have the same answer.
_FEW_TOKENS = 4


def prompt_of(request: Request) -> str:
    """The prompt as a text to compare; the whole body if the API is unknown."""
    body = request.body
    for key in PROMPT_KEYS:
        if key in body:
            return str(body[key])
    return str(body)


def user_text(request: Request) -> str:
    """The text that the user wrote: a prompt, or the last message of a chat; empty if it is no text."""
    for key in PROMPT_KEYS:
        value = request.body.get(key)
        if key == "messages" and isinstance(value, list) and value:
            value = value[-1].get("content") if isinstance(value[-1], dict) else None
        if isinstance(value, str):
            return value
    return ""


def token_limit(request: Request) -> int | None:
    """The most tokens that the answer may have; None if the request names no limit."""
    parameters = parameters_of(request)
    for key in _LIMITS:
        value: Any = parameters.get(key)
        # By type: True is an int.
        if type(value) is int:
            return value
    return None


def parameters_of(request: Request) -> Mapping[str, Any]:
    """What a request says beside its prompt, wherever its API has it."""
    parameters = dict(request.body)
    for key in _NESTED:
        nested = request.body.get(key)
        if isinstance(nested, Mapping):
            parameters |= nested
    return parameters


def is_free(request: Request) -> bool:
    """Whether the model may write what it wants, and enough to differ from prompt to prompt."""
    body = request.body
    limit = token_limit(request)
    if not protocol_of(request).sampled or (limit is not None and limit < _FEW_TOKENS):
        return False
    if body.get("tool_choice") not in _FREE_CHOICE:
        return False
    restrictions = [body.get(key) for key in _RESTRICTIONS]
    return not any(map(_restricts, restrictions))


def is_greedy(request: Request) -> bool:
    """Whether the request asks for the most probable answer, and so for the same one each time."""
    temperature = parameters_of(request).get("temperature")
    return type(temperature) in {int, float} and temperature == 0


def _restricts(value: Any) -> bool:
    """Whether the value of such a key binds the model; the format `text` is no restriction."""
    return bool(value) and value != {"type": "text"}

# SPDX-License-Identifier: Apache-2.0
"""The OpenAI completion protocol: request body to `Sequence`, `Sequence` to answer."""

import time
import uuid
from typing import Any

from engine import Sequence
from model import MAX_MODEL_LEN

MODEL_NAME = "tiny-llm"
Json = dict[str, Any]


class APIError(Exception):
    """A refusal, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def require(condition: bool, message: str) -> None:
    """Refuse the request unless the condition holds."""
    if not condition:
        raise APIError(400, message)


def render_chat(messages: Any) -> Any:
    """Return the prompt for a conversation: the chat template."""
    require(isinstance(messages, list) and bool(messages), "messages must be a non-empty list")
    lines = []
    for message in messages:
        require(isinstance(message, dict), "each message must be an object")
        role, content = message.get("role"), message.get("content")
        require(isinstance(role, str) and isinstance(content, str), "role and content: strings")
        lines.append(f"{role}: {content}\n")
    return "".join(lines) + "assistant:"


def parse(body: Any, chat: bool) -> Sequence:
    """Return the sequence that a request body asks for."""
    require(isinstance(body, dict), "the body must be a JSON object")
    if (name := body.get("model", MODEL_NAME)) != MODEL_NAME:
        raise APIError(404, f"The model `{name}` does not exist.")
    require(not body.get("stream"), "streaming is not supported")
    require(body.get("temperature") in (None, 0), "greedy only: temperature must be 0")
    require(body.get("n") in (None, 1), "n must be 1")
    prompt = render_chat(body.get("messages")) if chat else body.get("prompt")
    require(isinstance(prompt, str) and bool(prompt), "prompt must be a non-empty string")
    tokens = prompt.encode("utf-8", "replace")
    limits = (body.get(key) for key in ("max_tokens", "max_completion_tokens"))
    limit = next((given for given in limits if given is not None), 16)
    require(type(limit) is int and limit > 0, "max_tokens must be a positive integer")
    full = f"prompt and max_tokens exceed the context length of {MAX_MODEL_LEN} tokens"
    require(len(tokens) + limit <= MAX_MODEL_LEN, full)
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    strings = isinstance(stop, list) and all(isinstance(s, str) and s for s in stop)
    require(strings, "stop must be a string or a list of strings")
    return Sequence(tokens, limit, tuple(stop))


def logprobs(sequence: Sequence, chat: bool) -> Json:
    """Return the log-probability of each chosen token, in the endpoint's shape."""
    tokens = [chr(byte) for byte in sequence.output]
    if not chat:
        return {"tokens": tokens, "token_logprobs": sequence.logprobs}
    pairs = zip(tokens, sequence.logprobs, strict=True)
    return {"content": [{"token": t, "logprob": p, "top_logprobs": []} for t, p in pairs]}


def answer(sequence: Sequence, chat: bool, with_logprobs: bool) -> Json:
    """Return the response body for a finished sequence."""
    prompt, completion = len(sequence.prompt), len(sequence.output)
    message = {"message": {"role": "assistant", "content": sequence.text}}
    choice = {
        "index": 0,
        **(message if chat else {"text": sequence.text}),
        "logprobs": logprobs(sequence, chat) if with_logprobs else None,
        "finish_reason": sequence.finish_reason,
    }
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sequence.cached_tokens},
    }
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
        "object": "chat.completion" if chat else "text_completion",
        "created": int(time.time()),
        "model": MODEL_NAME,
        "system_fingerprint": "fp_tiny_llm",
        "choices": [choice],
        "usage": usage,
    }

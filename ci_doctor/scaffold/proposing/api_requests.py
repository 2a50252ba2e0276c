# SPDX-License-Identifier: Apache-2.0
"""Pure. Starter requests for the APIs that many servers have.

All are repeatable: the likeliest token each time, a seed, a bounded answer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from ci_doctor.scaffold.proposing.prompts import (
    ALONE,
    LONG_BEGINNING,
    QUESTIONS,
    SHORT_BEGINNING,
)
from ci_doctor.scaffold.servers.server_kind import Api

COUNT: Final = 20
_LIMITS: Final = (16, 48, 96)
_SMALL_LIMITS: Final = (8, 16, 24)

Body = dict[str, Any]
RequestLine = dict[str, Any]


class Prompt(Struct, frozen=True, kw_only=True):
    """`beginning` is shared with other prompts, or empty; `limit` bounds the answer, in tokens."""

    beginning: str
    question: str
    limit: int

    @property
    def text(self) -> str:
        """All of it."""
        return f"{self.beginning}\n\n{self.question}" if self.beginning else self.question


def api_requests(
    apis: Sequence[Api], paths: Mapping[Api, str], model: str | None, *, short: bool
) -> list[RequestLine]:
    """Twenty requests, the APIs in turn.

    paths: where an API is not at its usual place. short: the server's context may be small.
    """
    lines = []
    numbers = dict.fromkeys(apis, 0)
    for at, prompt in enumerate(_prompts(short=short)):
        api = apis[at % len(apis)]
        numbers[api] += 1
        path, body = _FORMS[api](prompt)
        if model is not None and api not in _WITHOUT_MODEL:
            body = {"model": model, **body}
        identity = f"{api}-{numbers[api]:02}"
        lines.append({"id": identity, "path": paths.get(api, path), "body": body})
    return lines


def _prompts(*, short: bool) -> list[Prompt]:
    """Eight prompts that stand alone, twelve that share one of two beginnings."""
    limits = _SMALL_LIMITS if short else _LIMITS
    shared = SHORT_BEGINNING if short else LONG_BEGINNING
    pairs = [("", question) for question in ALONE]
    half = len(QUESTIONS) // 2
    pairs += [(shared, question) for question in QUESTIONS[:half]]
    pairs += [(SHORT_BEGINNING, question) for question in QUESTIONS[half:]]
    prompts = []
    for at, (beginning, question) in enumerate(pairs):
        limit = limits[at % len(limits)]
        prompts.append(Prompt(beginning=beginning, question=question, limit=limit))
    return prompts


def _completion(prompt: Prompt) -> tuple[str, Body]:
    body = {"prompt": prompt.text, "max_tokens": prompt.limit, "temperature": 0, "seed": 0}
    return "/v1/completions", body


def _chat(prompt: Prompt) -> tuple[str, Body]:
    messages = [{"role": "user", "content": prompt.question}]
    if prompt.beginning:
        messages.insert(0, {"role": "system", "content": prompt.beginning})
    body = {"messages": messages, "max_tokens": prompt.limit, "temperature": 0, "seed": 0}
    return "/v1/chat/completions", body


def _response(prompt: Prompt) -> tuple[str, Body]:
    body = {"input": prompt.text, "max_output_tokens": max(16, prompt.limit), "temperature": 0}
    return "/v1/responses", body


def _embedding(prompt: Prompt) -> tuple[str, Body]:
    # Several texts at once make another batch than one.
    texts = [prompt.text, prompt.question][: 1 + bool(prompt.beginning)]
    return "/v1/embeddings", {"input": texts}


def _tgi(prompt: Prompt) -> tuple[str, Body]:
    # It refuses a temperature of 0, and takes the likeliest token without sampling.
    parameters = {
        "max_new_tokens": prompt.limit,
        "do_sample": False,
        "seed": 0,
        "details": True,
    }
    return "/generate", {"inputs": prompt.text, "parameters": parameters}


def _sglang(prompt: Prompt) -> tuple[str, Body]:
    parameters = {"temperature": 0, "max_new_tokens": prompt.limit}
    return "/generate", {"text": prompt.text, "sampling_params": parameters}


def _vllm(prompt: Prompt) -> tuple[str, Body]:
    return "/generate", {"prompt": prompt.text, "max_tokens": prompt.limit, "temperature": 0}


_FORMS: Final[Mapping[Api, Callable[[Prompt], tuple[str, Body]]]] = {
    Api.COMPLETIONS: _completion,
    Api.CHAT: _chat,
    Api.RESPONSES: _response,
    Api.EMBEDDINGS: _embedding,
    Api.TGI_GENERATE: _tgi,
    Api.SGLANG_GENERATE: _sglang,
    Api.VLLM_GENERATE: _vllm,
}
_WITHOUT_MODEL: Final = frozenset((Api.TGI_GENERATE, Api.SGLANG_GENERATE, Api.VLLM_GENERATE))

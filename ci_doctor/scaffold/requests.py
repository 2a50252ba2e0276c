# SPDX-License-Identifier: Apache-2.0
"""Pure. Starter requests for the APIs that many servers have.

All are repeatable: the likeliest token each time, a seed, a bounded answer. Prompts have several lengths,
and some a beginning in common: servers reuse the keys and values of a prefix by blocks, 16 tokens in vLLM,
256 in LMCache. So a long prefix has more than 256 tokens, and a cache under test is hit.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from ci_doctor.scaffold.servers import Api

ALONE: Final = (
    "The capital of Norway is",
    "Count from one to ten in words:",
    "Name three tools of a carpenter.",
    "def fibonacci(n):",
    "Translate into French: the train leaves at noon.",
    "A list of five colours:\n1.",
    "Explain in two sentences why ice floats on water.",
    "Write a short notice for a library that closes one hour earlier on Fridays this winter.",
)
# Fits into a context of some hundred tokens, a byte each.
SHORT_BEGINNING: Final = (
    "Log of the lock keeper, Monday: the upper gate was painted, two barges waited for an hour, "
    "and the pump ran until six."
)
_LONG_PARTS: Final = (
    "Register of the harbour at Stone Quay, first quarter.",
    "The harbour has four berths, two cranes and one dry dock.",
    "Berth one takes ships of up to ninety metres, berth two of up to seventy.",
    "Berths three and four are for fishing boats and are free at night.",
    "The large crane lifts forty tonnes and is inspected on the first Monday of each month.",
    "The small crane lifts twelve tonnes and was moved to berth two in February.",
    "In January eleven ships called, and six of them carried timber.",
    "The timber went by rail to the mill at Upper Ferry, forty wagons in all.",
    "One ship, the Northern Lark, waited three days because of fog.",
    "In February nine ships called; four carried salt and two carried machine parts.",
    "The machine parts were for the new pumps of the dry dock.",
    "Two pumps were fitted on the fourteenth, and the third one on the twentieth.",
    "Since then the dock is empty in fifty minutes; before it took two hours.",
    "In March fourteen ships called, more than in any month of the year before.",
    "A barge touched the pier of berth three on the ninth; nobody was hurt.",
    "The pier was repaired within a week, and the barge paid for the planks.",
    "The fee for a night is eighteen crowns for each ten metres of length.",
    "Ships that stay for more than a week pay half of it from the eighth night on.",
    "The harbour office opens at six and closes at ten in the evening.",
    "Letters for crews are kept in the office for thirty days.",
    "Fresh water is drawn at berth two, and ice at the fish hall.",
    "The pilot boat leaves on the hour between seven and nineteen.",
)
LONG_BEGINNING: Final = " ".join(_LONG_PARTS)
QUESTIONS: Final = (
    "What happened first?",
    "How many things are counted here?",
    "Write one sentence that sums it up.",
    "Which part needed a repair?",
    "List every number in it.",
    "What would you ask the writer?",
    "Repeat the last sentence.",
    "Who has to wait, and for how long?",
    "Give it a title of three words.",
    "Which day is named?",
    "Continue it with one more sentence.",
    "Rewrite it as a question.",
)


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
    """Twenty requests, the APIs in turn; of an application's own routes one, to be replaced.

    paths: where an API is not at its usual place. short: the server's context may be small.
    """
    if Api.ROUTES in apis:
        path = paths.get(Api.ROUTES, "/")
        return [{"id": "route-01", "path": path, "method": "GET", "protocol": "json"}]
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

# SPDX-License-Identifier: Apache-2.0
"""The requests of the experiments. Pure.

Two thirds have one beginning of about 330 tokens, the others none; endings are of many lengths, so that blocks and chunks
are cut at many places. Answers are of at most 40 tokens with log-probabilities, where a changed token of the context shows.
"""

import json
import random
from collections.abc import Callable
from pydoc_data.topics import topics
from typing import Any

SEED = 20_261_129
COUNT = 24
Body = dict[str, Any]


def _words(drawn: random.Random, number: int) -> str:
    words = topics["assignment"].split()
    return " ".join(drawn.choices(words, k=number))


def _prompts(count: int) -> list[str]:
    drawn = random.Random(SEED)
    shared = _words(drawn, 110)
    own = [_words(drawn, drawn.randint(2, 60)) for _ in range(count)]
    return [f"{shared} {each}" if place % 3 else each for place, each in enumerate(own)]


def _completion(place: int, prompt: str) -> Body:
    return {
        "model": "m", "prompt": prompt, "max_tokens": 24 + place % 17, "temperature": 0, "logprobs": 2,
        "return_token_ids": True,
    }  # fmt: skip


def _chat(place: int, prompt: str) -> Body:
    return {
        "model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 24 + place % 17,
        "temperature": 0, "logprobs": True, "top_logprobs": 2, "return_token_ids": True,
    }  # fmt: skip


def _stream(place: int, prompt: str) -> Body:
    own = {"stream": True, "stream_options": {"include_usage": True}}
    return _completion(place, prompt) | own


def _salt(place: int, prompt: str) -> Body:
    return _completion(place, prompt) | {"cache_salt": f"tenant-{place % 2}"}


def _lora(place: int, prompt: str) -> Body:
    """Neighbours have one prompt, and one of two adapters.

    None without: vLLM 0.32.0 on processors answers such a request by the last adapter, as float64 shows, if there is one.
    """
    return _completion(place, prompt) | {"model": ("a", "b", "a")[place % 3]}


def _seeded(place: int, prompt: str) -> Body:
    return _completion(place, prompt) | {"temperature": 0.8, "seed": place}


def _sampled(place: int, prompt: str) -> Body:
    return _completion(place, prompt) | {"temperature": 0.8}


def _several(place: int, prompt: str) -> Body:
    return _sampled(place, prompt) | {"n": 2}


def _several_seeded(place: int, prompt: str) -> Body:
    return _several(place, prompt) | {"seed": place}


def _priority(place: int, prompt: str) -> Body:
    return _completion(place, prompt) | {"priority": place % 3}


def _repeating(place: int, prompt: str) -> Body:
    """A prompt that has its end before: n-gram speculation has something to propose."""
    words = prompt.split()[-12:]
    return _completion(place, " ".join(words * 4))


def _stopped(place: int, prompt: str) -> Body:
    """Words that no answer has: the server holds back as many letters until the stream ends."""
    return _stream(place, prompt) | {"stop": ["nobody says this"]}


def _ended(place: int, prompt: str) -> Body:
    return _completion(place, prompt) | {"stop_token_ids": list(range(300, 400))}


def _namesake(place: int, prompt: str) -> Body:
    """Neighbours have one prompt: for an adapter, for a tenant of its name, and for neither."""
    return _completion(place, prompt) | ({"model": "a"}, {"cache_salt": "a"}, {})[place % 3]


def _masked(place: int, prompt: str) -> Body:
    """Every third answer is restricted to a tenth of the tokens."""
    return _completion(place, prompt) | (
        {"allowed_token_ids": list(range(100, 300))} if place % 3 == 0 else {}
    )


def _narrow(place: int, prompt: str) -> Body:
    """Answers of four tokens repeat themselves: n-gram speculation is often right."""
    return _completion(place, prompt) | {"allowed_token_ids": [400, 500, 600, 700]}


def _penalised(place: int, prompt: str) -> Body:
    return _completion(place, prompt) | {
        "allowed_token_ids": list(range(400, 416)),
        "presence_penalty": 1.5,
    }


KINDS: dict[str, Callable[[int, str], Body]] = {
    "completions": _completion, "chat": _chat, "stream": _stream, "salt": _salt, "lora": _lora, "seeded": _seeded,
    "sampled": _sampled, "several": _several, "several-seeded": _several_seeded, "priority": _priority, "repeating": _repeating,
    "stopped": _stopped, "ended": _ended, "namesakes": _namesake, "masked": _masked, "narrow": _narrow,
    "penalised": _penalised,
}  # fmt: skip


# Three neighbours have one prompt.
_SHARED = {"lora", "namesakes"}


def as_file(kind: str, count: int = COUNT) -> str:
    """One JSON object a line, for `ci-doctor correctness`."""
    path = "/v1/chat/completions" if kind == "chat" else "/v1/completions"
    is_shared = kind in _SHARED
    prompts = _prompts(count // 3 + 1) if is_shared else _prompts(count)
    lines = []
    for place in range(count):
        prompt = prompts[place // 3] if is_shared else prompts[place]
        lines.append({"id": f"r{place}", "path": path, "body": KINDS[kind](place, prompt)})
    return "".join(f"{json.dumps(each)}\n" for each in lines)

# SPDX-License-Identifier: Apache-2.0
"""The requests: four documents of 60 to 150 words with four questions each, and eight short prompts. Pure."""

import json
from random import Random
from typing import Any

MODEL = "small-llama"
MOST_TOKENS = 16
DOCUMENTS = (60, 90, 120, 150)
QUESTIONS = 4
SHORT = 8
CONSONANTS = "bcdfghklmnprstvw"
VOWELS = "aeiou"


def requests() -> list[dict[str, Any]]:
    """The lines of the requests file; the same ones each time."""
    random = Random(20_261_123)

    def words(count: int) -> str:
        return " ".join(word(random) for _ in range(count))

    prompts = []
    for length in DOCUMENTS:
        document = words(length)
        prompts += [f"{document} {words(random.randint(6, 12))}" for _ in range(QUESTIONS)]
    prompts += [words(random.randint(5, 40)) for _ in range(SHORT)]
    lines = []
    for number, prompt in enumerate(prompts):
        # Every sixth one is a chat.
        lines.append(chat(number, prompt) if number % 6 == 5 else completion(number, prompt))
    return lines


def word(random: Random) -> str:
    """Two syllables."""
    return "".join(random.choice(letters) for letters in (CONSONANTS, VOWELS) * 2)


def completion(number: int, prompt: str) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": prompt, "logprobs": 3, "return_token_ids": True}
    return line(number, "/v1/completions", body)


def chat(number: int, prompt: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    body = {"model": MODEL, "messages": messages, "logprobs": True, "top_logprobs": 3}
    return line(number, "/v1/chat/completions", body)


def line(number: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
    body |= {"max_tokens": MOST_TOKENS, "temperature": 0, "seed": 0}
    return {"id": f"r{number}", "path": path, "body": body}


def as_file() -> str:
    """All of them, one a line."""
    return "".join(f"{json.dumps(each)}\n" for each in requests())

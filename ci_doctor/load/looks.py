# SPDX-License-Identifier: Apache-2.0
"""What the answers of one server look like beside each other: how many texts, how many blank. Pure.

Answers may be whole and equal on both sides, and still show that nothing was tested.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.load.canonical import is_blank, text_of
from ci_doctor.load.requests import Request

# With fewer different prompts, one and the same answer is no surprise.
FEWEST_PROMPTS = 3


class AnswerLooks(Struct, frozen=True, kw_only=True):
    """`answered` requests, `texts` different ones among their answers, `blank` without a word.

    `models` leads from a request to the model that its answer names, if it names one.
    """

    answered: int = 0
    texts: int = 0
    blank: int = 0
    models: Mapping[str, str] = {}

    def is_one_answer(self, prompts: int) -> bool:
        """Whether all got one text, though there are so many different `prompts`."""
        return self.texts == 1 and min(self.answered, prompts) >= FEWEST_PROMPTS


class LooksOfAnswers:
    """Takes the answers one by one. Of a text only its hash is kept."""

    def __init__(self) -> None:
        self._texts: set[int] = set()
        self._answered: set[str] = set()
        self._blank: set[str] = set()
        self._models: dict[str, str] = {}

    def add(self, request: str, output: dict[str, Any], prompt_facts: Mapping[str, Any]) -> None:
        """Take note of one canonical output."""
        self._answered.add(request)
        self._texts.add(hash(words_of(output)))
        if is_blank(output):
            self._blank.add(request)
        model = prompt_facts.get("model")
        if isinstance(model, str):
            self._models[request] = model

    def value(self) -> AnswerLooks:
        """What came of it."""
        return AnswerLooks(
            answered=len(self._answered),
            texts=len(self._texts),
            blank=len(self._blank),
            models=self._models,
        )


def words_of(output: dict[str, Any]) -> str:
    """The text of an output; its tokens, if a server gives nothing else."""
    text = text_of(output)
    if text:
        return text
    tokens = [choice.get("token_ids") for choice in output["choices"]]
    return str(tokens)


def count_prompts(requests: Iterable[Request]) -> int:
    """How many different prompts the requests have."""
    prompts = set()
    for request in requests:
        body = request.body
        prompts.add(str(body.get("messages", body.get("prompt", body))))
    return len(prompts)

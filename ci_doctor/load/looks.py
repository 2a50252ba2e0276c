# SPDX-License-Identifier: Apache-2.0
"""What the answers of one server look like beside each other: how many texts, how many blank. Pure.

Answers may be whole and equal on both sides, and still show that nothing was tested.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.load.answer_items import items_of, named_tokens, own_numbers
from ci_doctor.load.canonical import is_blank, text_of
from ci_doctor.load.prompts import is_free, prompt_of, token_limit, user_text
from ci_doctor.load.requests import Request, protocol_of

# With fewer different prompts, one and the same answer is no surprise.
FEWEST_PROMPTS = 3
# The protocols whose choices say why they ended.
_ENDED = ("completions", "chat")
# The finish reasons of a whole answer: of OpenAI's APIs, of TGI, of vLLM, and of other APIs behind a proxy.
_ENDS = frozenset(
    (
        *("stop", "length", "tool_calls", "function_call", "completed", "max_output_tokens"),
        *("eos", "eos_token", "stop_sequence", "repetition", "end_turn", "max_tokens", "tool_use"),
    )
)
# No tokenizer puts so many words into one token, on average over an answer of some length.
_WORDS_OF_A_TOKEN = 3
_SOME_WORDS = 8
# Of the letters of a text, so many stand in the tokens that the log-probabilities list: if the
# usage counts more tokens than they do, and if there is no usage.
_LISTED = 0.9
_LISTED_WITHOUT_USAGE = 0.5
# A model is now and then quite sure of a token, and never equally sure of so many.
_SCORED_TOKENS = 16


# Followed by a sign or a number: a sentence on errors is an answer.
_ERROR = re.compile(
    r"\W*((internal|server|engine|runtime|fatal)\W+)*(error|exception|traceback)\s*([^\w\s]|\d|$)",
    re.IGNORECASE,
)


class AnswerLooks(Struct, frozen=True, kw_only=True):
    """`answered` requests, `texts` different ones among their answers, `blank` without a word.

    `models` leads from a request to the model that its answer names, if it names one. `longer` counts
    the answers to requests for more than one token, `cut` those of them that their length ended at
    the first. `free` counts different prompts that leave the model free, `free_texts` the different
    answers to them; `free_words` is the length of the longest in words. `unended` counts the answers
    whose API promises a finish reason, and which have none. `hollow` counts the free prompts whose
    answers repeat the prompt, or are an error message. `restless`: at temperature 0, each request got other
    words in each pass. `unscored` counts the answers without the log-probabilities that were asked for.
    `broken_off` leads from a request to a finish reason that is no end of an answer, `contradictions` from a
    request to what in its answer contradicts itself. `errors` counts the answers that are an error message. `one_number` is the log-probability that all of many
    tokens of several prompts have.
    """

    answered: int = 0
    texts: int = 0
    blank: int = 0
    models: Mapping[str, str] = {}
    longer: int = 0
    cut: int = 0
    free: int = 0
    free_texts: int = 0
    free_words: int = 0
    unended: int = 0
    hollow: int = 0
    restless: bool = False
    unscored: int = 0
    broken_off: Mapping[str, str] = {}
    contradictions: Mapping[str, str] = {}
    one_number: float | None = None
    errors: int = 0

    def is_one_answer(self, prompts: int) -> bool:
        """Whether all got one text, though there are so many different `prompts`."""
        return self.texts == 1 and min(self.answered, prompts) >= FEWEST_PROMPTS

    @property
    def is_hollow(self) -> bool:
        """Whether each answer is its own prompt again, or an error message: no model said that.

        Where the requests are not known, only error messages count.
        """
        if not self.free:
            return FEWEST_PROMPTS <= self.answered == self.errors
        return self.free >= FEWEST_PROMPTS and self.hollow == self.free

    @property
    def ignores_prompts(self) -> bool:
        """Whether all got one text though each could have got its own.

        One word is a label: three prompts may well have the same.
        """
        return self.free_texts == 1 and self.free >= FEWEST_PROMPTS and self.free_words > 1


_COUNTED = (
    *("answered", "texts", "blank", "longer", "cut", "free", "free_texts"),
    *("unended", "hollow", "unscored", "errors"),
)


class LooksOfAnswers:
    """Takes the answers one by one. Of a text only its hash is kept.

    `requests` are those that were sent, if they are known.
    """

    def __init__(self, requests: Iterable[Request] = ()) -> None:
        self._requests = {request.id: request for request in requests}
        # How many different words each answer has, and how many characters.
        self.variety: dict[str, tuple[int, int]] = {}
        # By the name of a field of AnswerLooks: what it counts, requests by id, and texts by hash.
        self._counted: dict[str, set[str | int]] = {name: set() for name in _COUNTED}
        self._free_words = 0
        self._models: dict[str, str] = {}
        self._broken_off: dict[str, str] = {}
        self._contradictions: dict[str, str] = {}
        # Of the log-probabilities: which there are, until there are two; how many; of which prompts.
        self._numbers: set[float] = set()
        self._scored_tokens = 0
        self._scored: set[int] = set()

    def add(self, request: str, output: dict[str, Any], prompt_facts: Mapping[str, Any]) -> None:
        """Take note of one canonical output."""
        words = words_of(output)
        self._counted["answered"].add(request)
        self._counted["texts"].add(hash(words))
        sent = self._requests.get(request)
        if sent is not None:
            self._add_to(sent, words, output)
        if is_blank(output):
            self._counted["blank"].add(request)
        if _ERROR.match(words):
            self._counted["errors"].add(request)
        model = prompt_facts.get("model")
        if isinstance(model, str):
            self._models[request] = model

    def value(self) -> AnswerLooks:
        """What came of it."""
        counts: dict[str, Any] = {name: len(each) for name, each in self._counted.items()}
        return AnswerLooks(
            models=self._models,
            free_words=self._free_words,
            broken_off=self._broken_off,
            contradictions=self._contradictions,
            one_number=self._one_number(),
            **counts,
        )

    def _one_number(self) -> float | None:
        is_many = len(self._scored) >= FEWEST_PROMPTS and self._scored_tokens >= _SCORED_TOKENS
        return next(iter(self._numbers)) if is_many and len(self._numbers) == 1 else None

    def _add_to(self, request: Request, words: str, output: dict[str, Any]) -> None:
        """What an answer shows beside its request."""
        each_word = words.split()
        self.variety[request.id] = (len(set(each_word)), len(words))
        wanted = request.body.get("logprobs")
        limit = token_limit(request)
        is_longer = limit is None or limit > 1
        shown = {
            "unended": protocol_of(request).name in _ENDED and not _is_ended(output),
            # Zero asks for those of the chosen tokens. An empty answer has none.
            "unscored": (wanted is True or type(wanted) is int)
            and words
            and not _is_scored(output),
            "longer": is_longer,
            "cut": is_longer and _is_cut_at_once(output),
        }
        for name, is_so in shown.items():
            if is_so:
                self._counted[name].add(request.id)
        self._add_doubts(request, output)
        if is_free(request):
            prompt = hash(prompt_of(request))
            self._counted["free"].add(prompt)
            if not request.body.get("echo") and _is_hollow(user_text(request), words):
                self._counted["hollow"].add(prompt)
            self._counted["free_texts"].add(hash(words))
            self._free_words = max(self._free_words, len(each_word))

    def _add_doubts(self, request: Request, output: dict[str, Any]) -> None:
        """What an answer shows against itself."""
        if (reason := _no_end(output)) is not None:
            self._broken_off[request.id] = reason
        if (contradiction := _contradiction(request, output)) is not None:
            self._contradictions[request.id] = contradiction
        if len(self._numbers) < 2:
            numbers = list(own_numbers(list(output.get("choices") or ())))
            self._numbers.update(numbers)
            self._scored_tokens += len(numbers)
            self._scored.update([hash(prompt_of(request))] if numbers else [])


def _is_hollow(prompt: str, answer: str) -> bool:
    """Whether an answer is an error message, holds the whole prompt, begins it, or is it backwards."""
    if _ERROR.match(answer):
        return True
    asked, given = ("".join(filter(str.isalnum, text.casefold())) for text in (prompt, answer))
    if not asked or not given:
        return False
    return asked in given or asked.startswith(given) or asked[::-1].startswith(given)


def _is_ended(output: dict[str, Any]) -> bool:
    return all(choice.get("finish_reason") for choice in output.get("choices") or ())


def _is_scored(output: dict[str, Any]) -> bool:
    return any(True for _ in own_numbers(list(output.get("choices") or ())))


def _no_end(output: dict[str, Any]) -> str | None:
    """The first finish reason that says that an answer was taken away or given up."""
    reasons = [choice.get("finish_reason") for choice in output.get("choices") or ()]
    return next((str(each) for each in reasons if each and each.lower() not in _ENDS), None)


def _contradiction(request: Request, output: dict[str, Any]) -> str | None:
    """What in an answer contradicts itself, in words: its text, the tokens listed, those counted."""
    choices = output.get("choices") or ()
    # Then the text and the tokens are those of the prompt, too.
    if request.body.get("echo"):
        return None
    texts = [each.get("text") or each.get("message", {}).get("content") or "" for each in choices]
    text = " ".join(map(str, texts))
    counted = output.get("completion_tokens")
    words = len(text.split())
    is_long = words >= _SOME_WORDS or counted == 0
    if counted is not None and is_long and words > _WORDS_OF_A_TOKEN * counted:
        return f"its usage counts {counted} tokens, and its text has {words} words"
    listed = [token for choice in choices for token in named_tokens(choice)]
    # Some servers list the token that ends an answer, and do not count it, or the other way round.
    if counted is not None and len(listed) > counted + len(choices):
        return f"its log-probabilities list {len(listed)} tokens, and its usage counts {counted}"
    is_whole = counted is not None and len(listed) >= counted - len(choices)
    # What is no whole character has no letters of its own.
    if is_whole or not listed or any("\ufffd" in token for token in listed):
        return None
    share = _LISTED_WITHOUT_USAGE if counted is None else _LISTED
    if _letters("".join(listed)) < share * _letters(text):
        return f"its log-probabilities list {len(listed)} tokens, and these are not its whole text"
    return None


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _is_cut_at_once(output: dict[str, Any]) -> bool:
    """Whether their length ended all choices of an answer at their first token."""
    choices = output.get("choices") or ()
    reasons = {choice.get("finish_reason") for choice in choices}
    tokens = output.get("completion_tokens")
    if tokens is None:
        tokens = sum(len(choice.get("token_ids", "..")) for choice in choices)
    return reasons == {"length"} and tokens <= len(choices)


def words_of(output: dict[str, Any]) -> str:
    """The text of an output; its tokens or its numbers, if a server gives nothing else."""
    items = items_of(output)
    if items is not None:
        # As they are stored: to write each number of a long vector takes time.
        return str(items)
    tokens = [choice.get("token_ids") for choice in output.get("choices", ())]
    return text_of(output) or str(tokens)


def count_prompts(requests: Iterable[Request]) -> int:
    """How many different prompts the requests have."""
    return len({prompt_of(request) for request in requests})

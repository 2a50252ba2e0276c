# SPDX-License-Identifier: Apache-2.0
"""A second reading of samples.jsonl, with no code of ci-doctor: what differs at each level, and how far numbers lie apart.

Pure.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

Start = tuple[str, int]


class Answer(NamedTuple):
    """One answer of all its choices. `numbers` are by place, those of alternatives by place and token."""

    arm: str
    words: str
    tokens: tuple[int, ...]
    own: tuple[float, ...]
    numbers: dict[tuple[int, str], float]


class Reading(NamedTuple):
    """How many requests differ at each level; the largest distance of numbers where words and tokens are the same."""

    words: int
    tokens: int
    numbers: int
    nat: float


Answers = dict[str, dict[Start, list[Answer]]]


def answers(lines: Iterable[str]) -> Answers:
    """By request, then by start, in the order of the passes; controls and requests that failed are left out."""
    found: Answers = defaultdict(lambda: defaultdict(list))
    for line in lines:
        sample = json.loads(line)
        if sample["pass"] and sample["output"]:
            start = (sample["arm"], sample["start"])
            found[sample["id"]][start].append(answer(sample))
    return found


def answer(sample: dict[str, Any]) -> Answer:
    output = sample["output"]
    choices = sorted(output["choices"], key=itemgetter("index"))
    words = [f"{text_of(each)} {each['finish_reason']}" for each in choices]
    tokens = [token for each in choices for token in each["token_ids"]]
    entries = [entry for each in choices for entry in entries_of(each["logprobs"])]
    own = tuple(number for number, _ in entries)
    numbers = {(place, ""): number for place, number in enumerate(own)}
    for place, (_, listed) in enumerate(entries):
        numbers |= {(place, token): number for token, number in listed.items()}
    return Answer(sample["arm"], "\n".join(words), tuple(tokens), own, numbers)


def text_of(choice: dict[str, Any]) -> str:
    message = choice.get("message")
    return str(message["content"] if message else choice["text"])


def entries_of(logprobs: dict[str, Any]) -> Iterator[tuple[float, dict[str, float]]]:
    """Of each token its number, and those of the most probable tokens."""
    if "content" in logprobs:
        for entry in logprobs["content"]:
            listed = {each["token"]: each["logprob"] for each in entry["top_logprobs"]}
            yield entry["logprob"], listed
    else:
        yield from zip(logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)


def reading(found: Answers) -> Reading:
    """What differs between starts; a start's answer is that of all its passes."""
    words = tokens = numbers = 0
    nat = 0.0
    for starts in found.values():
        each = list(starts.values())
        words += differs([[one.words for one in passes] for passes in each])
        tokens += differs([[(one.words, one.tokens) for one in passes] for passes in each])
        numbers += differs([[one[1:] for one in passes] for passes in each])
        nat = max(nat, apart(list(itertools.chain.from_iterable(each))))
    return Reading(words, tokens, numbers, nat)


def differs(starts: Sequence[Any]) -> bool:
    return any(start != starts[0] for start in starts)


def apart(given: Sequence[Answer]) -> float:
    """In nat, over all answers to one request; only those of the same words and tokens are compared."""
    largest = 0.0
    for one, other in itertools.combinations(given, 2):
        if (one.words, one.tokens) == (other.words, other.tokens):
            for place in one.numbers.keys() & other.numbers.keys():
                largest = max(largest, abs(one.numbers[place] - other.numbers[place]))
    return largest

# SPDX-License-Identifier: Apache-2.0
"""Tests of what one other word in a prompt changes: which copies are sent, and what is said of them."""

import asyncio
import functools
import json
import re
from typing import Any

import pytest

from ci_doctor.correctness.asking import collect
from ci_doctor.correctness.evidence.samples import NO_PASS, Sample
from ci_doctor.correctness.report.findings import sensitivity_findings
from ci_doctor.correctness.results import Tally
from ci_doctor.correctness.sensitivity import altered_requests, copies_within, measure
from ci_doctor.correctness.settings import AnswerLevel, Arm
from ci_doctor.load.requests import Request
from ci_doctor.load.sending import Sender
from ci_doctor.model.facts.correctness import AlteredAnswer, PromptRegion, SensitivityFacts
from tests.support.canned_server import CannedServer, http

SHARED = "The harbour lies behind the hill, and the ferry leaves at nine each morning. " * 2
PROMPTS = [f"{SHARED}Question {number}: where does ship {number} go?" for number in range(8)]


def request_of(name: str, prompt: Any) -> Request:
    return Request(id=name, path="/v1/completions", body={"prompt": prompt}, line=1)


REQUESTS = [request_of(f"r{number}", prompt) for number, prompt in enumerate(PROMPTS)]


def differing(before: Any, after: Any) -> list[int]:
    assert len(before) == len(after)
    return [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]


def test_copies_differ_in_one_word_of_the_shared_beginning_or_of_the_rest() -> None:
    copies = altered_requests(REQUESTS, 8)
    assert [each.region for each in copies] == [PromptRegion.SHARED] * 4 + [PromptRegion.OWN] * 4
    assert len({each.original for each in copies}) > 3
    places = []
    for copy in copies:
        original = next(each for each in REQUESTS if each.id == copy.original)
        (place,) = differing(original.body["prompt"], copy.request.body["prompt"])
        assert (place < len(SHARED)) == (copy.region is PromptRegion.SHARED)
        places.append(place)
    assert places[3] - places[0] > len(SHARED) / 2, "not in one place of the beginning alone"


def test_prompts_without_a_common_beginning_have_one_region() -> None:
    others = [
        request_of(f"r{number}", f"{number} apples and {number} pears") for number in range(4)
    ]
    copies = altered_requests(others, 4)
    assert [each.region for each in copies] == [PromptRegion.OWN] * 4


def test_a_chat_is_changed_in_any_of_its_messages() -> None:
    messages = [{"role": "system", "content": SHARED}, {"role": "user", "content": "one"}]
    other = [messages[0], {"role": "user", "content": "two"}]
    chats = [
        Request(id=name, path="/v1/chat/completions", body={"messages": each}, line=1)
        for name, each in (("a", messages), ("b", other))
    ]
    changed = {each.region: each.request.body["messages"] for each in altered_requests(chats, 2)}
    assert changed[PromptRegion.SHARED][0] != messages[0]
    assert changed[PromptRegion.OWN][0] == messages[0]
    assert changed[PromptRegion.OWN][1]["content"] not in {"one", "two"}


def test_token_ids_are_exchanged_for_others_of_the_prompt() -> None:
    prompts = [[*range(20), number, 7] for number in (3, 5)]
    tokens = [request_of(f"r{number}", each) for number, each in enumerate(prompts)]
    for copy in altered_requests(tokens, 4):
        original = prompts[int(copy.original[1:])]
        (place,) = differing(original, copy.request.body["prompt"])
        assert copy.request.body["prompt"][place] in original


@pytest.mark.parametrize("prompt", ["", "…!?", [4, 4, 4], [["a", "b"]], None, ["one", "two"]])
def test_a_prompt_without_another_word_gets_no_copy(prompt: Any) -> None:
    assert altered_requests([request_of("r", prompt)], 4) == []


def test_copies_are_at_most_a_tenth_of_what_the_shortest_run_sends() -> None:
    assert copies_within(requests=20, passes=2, starts=2) == 8
    assert copies_within(requests=1, passes=2, starts=2) == 0
    assert copies_within(requests=10**6, passes=2, starts=2) == 100


class Reader(CannedServer):
    """Answers with the prompt's words that match, and with a number that the whole prompt decides."""

    def __init__(self, words: str) -> None:
        super().__init__(b"")
        self.words = words

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length
        prompt = json.loads(await reader.readexactly(int(length[1])))["prompt"]
        text = " ".join(re.findall(self.words, prompt))
        number = -sum(at * ord(letter) for at, letter in enumerate(prompt)) / 10**6
        choice = {
            "index": 0,
            "text": text,
            "finish_reason": "stop",
            "logprobs": {"token_logprobs": [number]},
        }
        writer.write(http(json.dumps({"model": "m", "choices": [choice]}).encode()))
        await writer.drain()
        writer.close()


def measured(words: str, most: int = 8) -> tuple[tuple[AlteredAnswer, ...], list[Sample]]:
    tally = Tally(
        arm=Arm.BASELINE, number=1, ids=[each.id for each in REQUESTS], passes=1, requests=REQUESTS
    )
    kept: list[Sample] = []

    async def run() -> tuple[AlteredAnswer, ...]:
        async with Reader(words).running() as url:
            sender = Sender(base_url=url, timeout_s=20.0)
            sample = functools.partial(Sample, arm="baseline", start=1, pass_=1)
            await collect(sender, REQUESTS, sample, tally.add)
            return await measure(sender, REQUESTS, tally, kept.append, most)

    return asyncio.run(run()), kept


def test_a_server_that_answers_by_the_question_alone_shows_no_word_of_the_beginning() -> None:
    altered, kept = measured(r"Question.*")
    by_region = {
        region: [each for each in altered if each.region is region] for region in PromptRegion
    }
    assert [each.words for each in by_region[PromptRegion.SHARED]] == [False] * 4
    assert [each.words for each in by_region[PromptRegion.OWN]] == [True] * 4
    # The numbers depend on all of it.
    assert all(each.numbers for each in altered)
    assert {each.pass_ for each in kept} == {NO_PASS}
    assert all(each.id.startswith("control:word:") for each in kept)
    assert all(each.meta["body"]["prompt"] not in PROMPTS for each in kept)


def facts(region: PromptRegion, answers: int, changed: int) -> SensitivityFacts:
    return SensitivityFacts(
        region=region, level="words", answers=answers, changed=changed, low=0.0, high=1.0
    )


@pytest.mark.parametrize(
    ("shared", "own", "said"),
    [
        ((4, 0), (4, 1), "one other word in the prompt changed 1 of 8 answers"),
        ((8, 1), (8, 8), "one other word in the prompt (shared beginning) changed 1 of 8 answers"),
        ((8, 8), (8, 8), None),
        # Too few to say so.
        ((2, 0), (2, 0), None),
        ((8, 3), (8, 4), None),
    ],
)
def test_requests_that_show_little_are_a_warning_only_if_chance_is_excluded(
    shared: tuple[int, int], own: tuple[int, int], said: str | None
) -> None:
    rows = [facts(PromptRegion.SHARED, *shared), facts(PromptRegion.OWN, *own)]
    found = list(sensitivity_findings(rows, AnswerLevel.WORDS))
    assert [each.summary.partition(",")[0] for each in found] == ([said] if said else [])
    assert not list(sensitivity_findings(rows, AnswerLevel.NUMBERS))

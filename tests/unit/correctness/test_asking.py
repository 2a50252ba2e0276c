# SPDX-License-Identifier: Apache-2.0
"""Tests of what a start is sent, against servers on real sockets, and of copies of a prompt with one other word."""

import asyncio
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.correctness.asking import (
    collect,
    control_requests,
    inside_requests,
    is_due,
    passes_of,
    send_control,
)
from ci_doctor.correctness.evidence.samples import NO_PASS, Sample
from ci_doctor.correctness.report.findings import sensitivity_findings
from ci_doctor.correctness.results import Tally
from ci_doctor.correctness.sensitivity import altered_requests, copies_within, measure
from ci_doctor.correctness.settings import AnswerLevel, Arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.errors import InfraError
from ci_doctor.load.requests import Request
from ci_doctor.load.sending import Sender
from ci_doctor.model.facts.correctness import (
    AlteredAnswer,
    ControlOutcome,
    ControlResult,
    PromptRegion,
    SensitivityFacts,
)
from tests.support.canned_server import CannedServer, http, requests
from tests.unit.correctness.plans import planned


def test_every_pass_sends_all_requests_and_resets_before_each_but_the_first(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path, passes=3, concurrency=7)
    passes = passes_of(plan)
    assert [each.resets for each in passes] == [False, True, True]
    assert [each.requests for each in passes] == [plan.requests] * 3
    assert {each.concurrency for each in passes} == {7}


ANSWER = json.dumps({"choices": [{"text": "hi"}]}).encode()
SAMPLE = functools.partial(Sample, arm="baseline", start=1, pass_=1)


def collected(server: CannedServer, count: int = 1, *, concurrency: int = 4) -> list[Sample]:
    kept: list[Sample] = []

    async def run() -> None:
        async with server.running() as url:
            sender = Sender(base_url=url, concurrency=concurrency, timeout_s=20.0)
            await collect(sender, requests(count), SAMPLE, kept.append)

    asyncio.run(run())
    return kept


def test_every_request_becomes_one_sample() -> None:
    kept = collected(CannedServer(http(ANSWER)), 9)
    assert sorted(sample.id for sample in kept) == [f"r{number}" for number in range(9)]
    assert {(sample.status, sample.error, sample.empty) for sample in kept} == {(200, None, False)}
    assert len({sample.digest for sample in kept}) == 1


def test_no_more_requests_than_wanted_are_under_way_and_no_fewer() -> None:
    async def make() -> CannedServer:
        return CannedServer(http(ANSWER), hold=3)

    server = asyncio.run(make())
    collected(server, 9, concurrency=3)
    assert server.most == 3


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (http(ANSWER)[:-3], "RemoteProtocolError: peer closed connection"),
        (http(b"\xff\x00", "404 Not Found"), "HTTP 404: \ufffd\x00"),
        (http(b"nonsense", headers="Content-Encoding: gzip\r\n"), "DecodingError"),
        (
            http(json.dumps({"choices": [{"text": "a"}] * 2}).encode()),
            "2 choices in the answer, 1 were requested",
        ),
    ],
)
def test_what_is_no_answer_becomes_an_error_in_words(reply: bytes, said: str) -> None:
    (sample,) = collected(CannedServer(reply))
    assert (sample.output, sample.digest) == (None, None)
    assert said in str(sample.error)


def test_what_cannot_be_kept_ends_it_as_the_error_that_it_is() -> None:
    def full(_: Sample) -> None:
        raise InfraError("no space")

    async def run() -> None:
        async with CannedServer(http(ANSWER)).running() as url:
            await collect(Sender(base_url=url), requests(3), SAMPLE, full)

    with pytest.raises(InfraError, match="no space"):
        asyncio.run(run())


def asked(identity: str, **body: Any) -> Request:
    return Request(id=identity, path="/v1/completions", body=body, line=1)


FIRST = asked("r0", prompt="one")
SECOND = asked("r1", prompt="two")
LABEL = asked("r2", prompt="three", max_tokens=1)


def test_the_answer_with_the_most_different_words_is_taken_and_then_another_prompt() -> None:
    variety = {"r0": (3, 90), "r1": (7, 40), "r2": (9, 99)}
    controls = list(control_requests([FIRST, SECOND, LABEL], variety))
    assert [each.original for each in controls] == ["r1", "r0"]
    assert [each.request.id for each in controls] == ["control:r1", "control:r0"]
    assert all(each.telling for each in controls), "a label would tell little"


def test_of_equal_answers_the_first_of_the_file_is_taken() -> None:
    controls = list(control_requests([FIRST, SECOND], {"r0": (2, 9), "r1": (2, 9)}))
    assert controls[0].original == "r0"


def test_one_request_gives_two_different_controls() -> None:
    first, second = control_requests([FIRST], {"r0": (1, 1)})
    assert first.request.body != second.request.body
    assert {first.original, second.original} == {"r0"}


def test_a_request_without_an_answer_or_a_prompt_or_with_its_echo_gives_none() -> None:
    assert not list(control_requests([FIRST], {}))
    assert not list(control_requests([asked("r9", prompt_embeds="AA")], {"r9": (1, 1)}))
    assert not list(control_requests([asked("r9", prompt="x", echo=True)], {"r9": (9, 99)}))


def test_a_label_tells_nothing_by_its_words_and_a_vector_does_by_its_numbers() -> None:
    vector = Request(id="e", path="/v1/embeddings", body={"input": "x"}, line=1)
    for request, telling in ((LABEL, False), (vector, True)):
        (first, _) = control_requests([request], {request.id: (1, 1)})
        assert (first.telling, first.by_tokens) == (telling, False)


def test_a_word_that_a_system_message_may_demand_tells_nothing() -> None:
    user = {"role": "user", "content": "one"}
    body = {"messages": [{"role": "system", "content": "yes or no?"}, user]}
    chat = Request(id="c", path="/v1/chat/completions", body=body, line=1)
    assert not next(control_requests([chat], {"c": (1, 3)})).telling
    assert next(control_requests([chat], {"c": (5, 30)})).telling


def test_an_arm_gets_controls_until_one_decides() -> None:
    changed = ControlOutcome(result=ControlResult.CHANGED, request="r0")
    unanswered = ControlOutcome(result=ControlResult.UNANSWERED, request="r0", error="HTTP 500")
    starts = [ArmStart(arm=Arm.BASELINE, number=1, control=unanswered)]
    assert is_due(Arm.BASELINE, starts)
    starts.append(ArmStart(arm=Arm.BASELINE, number=2, control=changed))
    assert not is_due(Arm.BASELINE, starts)
    assert is_due(Arm.CANDIDATE, starts)


def test_another_middle_is_tried_in_two_short_prompts_and_in_two_long_ones() -> None:
    prompts = ["Hello there", *("Name a river and " + "a lake and " * count for count in (3, 5, 7))]
    asked_for = [asked(f"r{number}", prompt=each) for number, each in enumerate(prompts)]
    asked_for.append(asked("r9", prompt="a prompt that a server may cut " * 20))
    groups = list(inside_requests(asked_for, {each.id: (9, 40) for each in asked_for}))
    assert [[each.original for each in group] for group in groups] == [["r1", "r2"], ["r3", "r2"]]
    for control in (control for group in groups for control in group):
        original = next(each for each in asked_for if each.id == control.original)
        before, after = original.body["prompt"], control.request.body["prompt"]
        third = len(before) // 3
        assert len(after) == len(before)
        assert after != before
        assert (after[:third], after[-third:]) == (before[:third], before[-third:])


def test_a_label_has_no_control_inside() -> None:
    labels = [asked(f"r{number}", prompt=f"prompt {number}", max_tokens=1) for number in range(4)]
    assert not list(inside_requests(labels, {each.id: (1, 4) for each in labels}))


TEXT = "always the same words"


def reply(**changes: Any) -> bytes:
    choice = {"index": 0, "text": TEXT, "finish_reason": "stop", **changes}
    return http(json.dumps({"model": "m", "choices": [choice]}).encode())


def request_with(**body: Any) -> Request:
    return asked("r0", **{"prompt": "one two three", **body})


async def controlled(
    first: bytes, then: bytes, request: Request
) -> tuple[ControlOutcome | None, list[Sample], Tally]:
    """What came of the control of a server that answers `first` and, once asked, `then`."""
    tally = Tally(arm=Arm.CANDIDATE, number=2, ids=("r0",), passes=1, requests=(request,))
    server = CannedServer(first)
    kept: list[Sample] = []
    async with server.running() as url:
        sender = Sender(base_url=url, timeout_s=20.0)
        sample = functools.partial(Sample, arm="candidate", start=2, pass_=1)
        await collect(sender, [request], sample, tally.add)
        server.reply = then
        outcome = await send_control(sender, [request], tally, kept.append)
    return outcome, kept, tally


NOISE = reply(logprobs={"token_logprobs": [-0.5]})
ONE_TOKEN = request_with(max_tokens=1)


@pytest.mark.parametrize(
    ("then", "request_", "result", "tries"),
    [
        (reply(text="something else"), request_with(), ControlResult.CHANGED, 1),
        (reply(), request_with(), ControlResult.SAME, 2),
        # A server that ignores its prompts may be noisy in its numbers.
        (NOISE, request_with(), ControlResult.SAME, 2),
        (NOISE, ONE_TOKEN, ControlResult.CHANGED, 1),
        (reply(), ONE_TOKEN, ControlResult.UNDECIDED, 2),
        (http(b"no", "500 No"), request_with(), ControlResult.UNANSWERED, 2),
        (reply(), request_with(prompt=None, prompt_embeds="AA"), ControlResult.IMPOSSIBLE, 0),
    ],
)
def test_the_answer_to_a_changed_prompt_is_held_against_the_original(
    then: bytes, request_: Request, result: ControlResult, tries: int
) -> None:
    outcome, kept, tally = asyncio.run(controlled(reply(), then, request_))
    assert outcome is not None
    assert outcome.result is result
    assert len(kept) == tries
    assert tally.count == 1, "a control is no answer to a request"
    for sample in kept:
        assert (sample.arm, sample.start, sample.pass_) == ("candidate", 2, NO_PASS)
        assert sample.id == "control:r0"
        assert sample.meta["body"]["prompt"] != request_.body["prompt"]


def test_a_server_that_has_answered_nothing_gets_no_control() -> None:
    outcome, kept, _ = asyncio.run(controlled(http(b"no", "500 No"), reply(), request_with()))
    assert outcome is None
    assert not kept


SHARED = "The harbour lies behind the hill, and the ferry leaves at nine each morning. " * 2
PROMPTS = [f"{SHARED}Question {number}: where does ship {number} go?" for number in range(8)]


REQUESTS = [asked(f"r{number}", prompt=prompt) for number, prompt in enumerate(PROMPTS)]


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
    others = [asked(f"r{n}", prompt=f"{n} apples and {n} pears") for n in range(4)]
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
    tokens = [asked(f"r{number}", prompt=each) for number, each in enumerate(prompts)]
    for copy in altered_requests(tokens, 4):
        original = prompts[int(copy.original[1:])]
        (place,) = differing(original, copy.request.body["prompt"])
        assert copy.request.body["prompt"][place] in original


@pytest.mark.parametrize("prompt", ["", "…!?", [4, 4, 4], [["a", "b"]], None, ["one", "two"]])
def test_a_prompt_without_another_word_gets_no_copy(prompt: Any) -> None:
    assert altered_requests([asked("r", prompt=prompt)], 4) == []


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
        writer.write(reply(text=text, logprobs={"token_logprobs": [number]}))
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
            await collect(sender, REQUESTS, SAMPLE, tally.add)
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

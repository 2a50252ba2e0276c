# SPDX-License-Identifier: Apache-2.0
"""Tests of what a start is sent, against servers on real sockets."""

# SPDX-License-Identifier: Apache-2.0
# SPDX-License-Identifier: Apache-2.0
import asyncio
import functools
import json
from pathlib import Path

# SPDX-License-Identifier: Apache-2.0
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
from ci_doctor.correctness.results import Tally
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.errors import InfraError
from ci_doctor.load.requests import Request
from ci_doctor.load.sending import Sender
from ci_doctor.model.facts.correctness import ControlOutcome, ControlResult
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


def collected(
    server: CannedServer, count: int = 1, *, concurrency: int = 4, timeout_s: float = 20.0
) -> list[Sample]:
    kept: list[Sample] = []

    async def run() -> None:
        async with server.running() as url:
            sender = Sender(base_url=url, concurrency=concurrency, timeout_s=timeout_s)
            await collect(sender, requests(count), SAMPLE, kept.append)

    asyncio.run(run())
    return kept


def error_of(reply: bytes) -> str:
    (sample,) = collected(CannedServer(reply))
    assert sample.output is None
    assert sample.digest is None
    assert sample.error is not None
    return sample.error


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
        (http(b"<html>"), "not JSON"),
        (http(b"no", "500 Broken"), "HTTP 500: no"),
        (http(b"\xff\x00", "404 Not Found"), "HTTP 404: \ufffd\x00"),
        (http(b"nonsense", headers="Content-Encoding: gzip\r\n"), "DecodingError"),
        (
            http(json.dumps({"choices": [{"text": "a"}] * 2}).encode()),
            "2 choices in the answer, 1 were requested",
        ),
    ],
)
def test_what_is_no_answer_becomes_an_error_in_words(reply: bytes, said: str) -> None:
    assert said in error_of(reply)


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


def test_a_request_without_an_answer_or_a_prompt_gives_none() -> None:
    assert not list(control_requests([FIRST], {}))
    assert not list(control_requests([asked("r9", prompt_embeds="AA")], {"r9": (1, 1)}))


def test_a_label_tells_nothing_by_its_words() -> None:
    (first, _) = control_requests([LABEL], {"r2": (1, 1)})
    assert not first.telling
    assert not first.by_tokens


def test_a_word_that_a_system_message_may_demand_tells_nothing() -> None:
    user = {"role": "user", "content": "one"}
    body = {"messages": [{"role": "system", "content": "yes or no?"}, user]}
    chat = Request(id="c", path="/v1/chat/completions", body=body, line=1)
    assert not next(control_requests([chat], {"c": (1, 3)})).telling
    assert next(control_requests([chat], {"c": (5, 30)})).telling


def test_an_answer_that_repeats_the_prompt_is_no_control() -> None:
    assert not list(control_requests([asked("r9", prompt="x", echo=True)], {"r9": (9, 99)}))


def test_vectors_are_compared_by_their_numbers_and_tell() -> None:
    request = Request(id="e", path="/v1/embeddings", body={"input": "x"}, line=1)
    (first, _) = control_requests([request], {"e": (1, 1)})
    assert first.telling
    assert not first.by_tokens


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
    body = {"prompt": "one two three", **body}
    return Request(id="r0", path="/v1/completions", body=body, line=1)


async def controlled(
    first: bytes, then: bytes, request: Request
) -> tuple[ControlOutcome | None, list[Sample], Tally]:
    """What came of the control of a server that answers `first` and, once asked, `then`."""
    tally = Tally(arm=Arm.CANDIDATE, number=2, ids=("r0",), passes=1, requests=(request,))
    server = CannedServer(first)
    kept: list[Sample] = []
    async with server.running() as url:
        sender = Sender(base_url=url, timeout_s=20.0)

        def sample(**fields: Any) -> Sample:
            return Sample(arm="candidate", start=2, pass_=1, **fields)

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

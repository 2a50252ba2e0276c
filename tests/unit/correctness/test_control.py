# SPDX-License-Identifier: Apache-2.0
"""A control against servers on real sockets."""

import asyncio
import json
from typing import Any

import pytest

from ci_doctor.correctness.collect import collect
from ci_doctor.correctness.control import send_control
from ci_doctor.correctness.evidence.samples import NO_PASS, Sample
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.verdict.starts import ControlOutcome, ControlResult
from ci_doctor.load.requests import Request
from ci_doctor.load.sending import Sender
from tests.support.canned_server import CannedServer, http

TEXT = "always the same words"


def reply(**changes: Any) -> bytes:
    choice = {"index": 0, "text": TEXT, "finish_reason": "stop", **changes}
    return http(json.dumps({"model": "m", "choices": [choice]}).encode())


def asked(**body: Any) -> Request:
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
LABEL = asked(max_tokens=1)


@pytest.mark.parametrize(
    ("then", "request_", "result", "tries"),
    [
        (reply(text="something else"), asked(), ControlResult.CHANGED, 1),
        (reply(), asked(), ControlResult.SAME, 2),
        # A server that ignores its prompts may be noisy in its numbers.
        (NOISE, asked(), ControlResult.SAME, 2),
        (NOISE, LABEL, ControlResult.CHANGED, 1),
        (reply(), LABEL, ControlResult.UNDECIDED, 2),
        (http(b"no", "500 No"), asked(), ControlResult.UNANSWERED, 2),
        (reply(), asked(prompt=None, prompt_embeds="AA"), ControlResult.IMPOSSIBLE, 0),
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
    outcome, kept, _ = asyncio.run(controlled(http(b"no", "500 No"), reply(), asked()))
    assert outcome is None
    assert not kept

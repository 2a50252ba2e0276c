# SPDX-License-Identifier: Apache-2.0
import json

from ci_doctor.correctness.archive.facts import COMPARISON_FORM, requests_digest, schedule_facts
from ci_doctor.load.canonical import canonicalise, digest
from ci_doctor.load.requests import Request
from ci_doctor.load.streamed import canonicalise_stream

ONE = Request(id="r0", path="/v1/completions", body={"prompt": "a\ud800", "seed": 0}, line=1)
TWO = Request(id="r1", path="/v1/completions", body={"prompt": "b", "seed": 0}, line=2)


def test_the_order_of_keys_and_the_line_do_not_matter_and_the_rest_does() -> None:
    same = Request(id="r0", path="/v1/completions", body={"seed": 0, "prompt": "a\ud800"}, line=9)

    assert requests_digest([ONE]) == requests_digest([same])
    others = [
        [TWO],
        [ONE, TWO],
        [TWO, ONE],
        [Request(id="r9", path=ONE.path, body=ONE.body, line=1)],
        [Request(id=ONE.id, path=ONE.path, body=ONE.body, line=1, protocol="score")],
        [],
    ]
    assert len({requests_digest(each) for each in ([ONE], *others)}) == 7


def test_every_part_of_the_schedule_is_a_fact() -> None:
    first = schedule_facts([ONE], passes=2, concurrency=40, caches="warm-up")

    others = (
        schedule_facts([ONE], passes=1, concurrency=40, caches="warm-up"),
        schedule_facts([ONE], passes=2, concurrency=1, caches="warm-up"),
        schedule_facts([ONE], passes=2, concurrency=40, caches="fresh"),
        schedule_facts([ONE], passes=2, concurrency=40, caches="warm-up", reset="/reset"),
    )
    for other in others:
        assert len({name for name in first if first[name] != other[name]}) == 1


COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1,
    "model": "tiny",
    "choices": [
        {
            "index": 1,
            "text": "b\u00e4 \U0001f600",
            "finish_reason": "stop",
            "logprobs": {
                "tokens": ["b", "\u00e4"],
                "token_logprobs": [-0.1, None],
                "top_logprobs": [{"b": -0.1, "c": -3.25e-7}, None],
                "text_offset": [0, 1],
            },
        },
        {"index": 0, "text": "a\n", "finish_reason": "length", "logprobs": None},
    ],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 0},
    },
    "system_fingerprint": "a",
}
STREAM = (
    b'data: {"id":"s","choices":[{"index":0,"text":"he","finish_reason":null}]}\n\n'
    b'data: {"id":"s","choices":[{"index":0,"text":"llo","finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def test_a_form_of_comparison_has_one_digest_for_the_same_answer() -> None:
    # If this fails, archived answers no longer compare with new ones: give COMPARISON_FORM another name.
    completion = canonicalise(json.dumps(COMPLETION).encode())
    streamed = canonicalise_stream(STREAM)

    assert (COMPARISON_FORM, digest(completion.output)) == (
        "0bc095900a7b",
        "7f7d8ec4dc88a21494f5b64c79474d538f9337143165ac1a13046752aa5bad0d",
    )
    assert digest(streamed.output) == (
        "54f38663be82027a80b6a1d3caf9bbffebb3e4982efe44a670a701dfb2c05733"
    )

# SPDX-License-Identifier: Apache-2.0
"""The fast way never calls two answers the same that the slow way tells apart."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.correctness.collected.formats import read
from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.pieces import alike, head, is_answer, token
from ci_doctor.load.canonical import digest

# Token texts that are keys of legacy `top_logprobs`, and look like what is masked.
TOKENS = st.sampled_from(
    ["id", "created", "choices", "digest", "meta", 'a"b', "\\", ": 1", "é", "Paris"]
)


def response(
    identity: str = "cmpl-1",
    created: int = 1,
    text: str = "Paris",
    top: dict[str, float] | None = None,
) -> bytes:
    choice = {
        "index": 0,
        "text": text,
        "logprobs": {"top_logprobs": [top or {}]},
        "finish_reason": "length",
    }
    body = {
        "id": identity,
        "object": "text_completion",
        "created": created,
        "model": "m",
        "choices": [choice],
    }
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def sample(
    arm: str = "baseline",
    meta: Any = None,
    text: str = "Paris",
    top: dict[str, float] | None = None,
) -> bytes:
    output = {"choices": [{"index": 0, "text": text, "logprobs": {"top_logprobs": [top or {}]}}]}
    line = {
        "arm": arm,
        "start": 1,
        "pass": 1,
        "id": "r0",
        "status": 200,
        "error": None,
        "output": output,
    }
    rest = {
        "digest": digest(output),
        "prompt_facts": {"model": "m"},
        "empty": False,
        "meta": meta or {"id": "x"},
    }
    return json.dumps({**line, **rest}).encode() + b"\n"


MAKERS = {SampleFormat.RESPONSES: response, SampleFormat.OURS: sample}


def fast_same(form: SampleFormat, left: bytes, right: bytes) -> bool:
    one, other = head(form, left), head(form, right)
    if one is None or other is None:
        return False
    same = alike(form, left, one.at, right, other.at) and is_answer(form, left)
    marks = token(form, left, one.at), token(form, right, other.at)
    if is_answer(form, left) and is_answer(form, right) and None not in marks:
        # What the two fast ways say must not contradict each other.
        assert not same or marks[0] == marks[1]
        return marks[0] == marks[1]
    return same


def slow_same(form: SampleFormat, left: bytes, right: bytes) -> bool:
    one, other = read(form, left), read(form, right)
    return one.digest is not None and one.digest == other.digest


def test_responses_that_differ_only_in_id_and_time_are_alike_without_being_read() -> None:
    assert fast_same(
        SampleFormat.RESPONSES, response("cmpl-1", 1), response("cmpl-22", 1_760_000_000)
    )


def test_samples_that_differ_only_in_arm_and_meta_are_alike_without_being_read() -> None:
    assert fast_same(
        SampleFormat.OURS,
        sample("baseline", {"id": "a"}),
        sample("candidate", {"id": "bc", "created": 7}),
    )


@pytest.mark.parametrize("key", ["id", "created", "digest", "meta", "choices"])
@pytest.mark.parametrize("form", list(MAKERS))
def test_a_token_whose_text_is_a_masked_key_is_compared(form: SampleFormat, key: str) -> None:
    left, right = MAKERS[form](top={key: -1.0}), MAKERS[form](top={key: -2.0})

    assert not fast_same(form, left, right)
    assert not slow_same(form, left, right)


@pytest.mark.parametrize(
    "broken",
    [
        response().replace(b'"index":0', b'"index":0,,'),
        response().replace(b"Paris", b"Pa\xffris"),
        response().replace(b'"length"', b'"abort"'),
        response().replace(b'"model":"m"', b'"model":"m","error":{"message":"no"}'),
        response().replace(b"text_completion", b"error"),
        response().replace(b'"Paris"', b"NaN"),
        response()[:-10] + b"\n",
        sample().replace(b'"meta": {', b'"meta": {,'),
    ],
)
def test_a_broken_line_is_not_alike_even_to_itself(broken: bytes) -> None:
    form = SampleFormat.OURS if broken.startswith(b'{"arm"') else SampleFormat.RESPONSES

    assert not fast_same(form, broken, broken)
    assert read(form, broken).digest is None


def test_a_second_output_behind_the_meta_is_seen() -> None:
    honest = sample()
    crafted = honest[:-2] + b', "output": {"choices": [{"index": 0, "text": "Rome"}]}}\n'

    assert not fast_same(SampleFormat.OURS, honest, crafted)
    assert not slow_same(SampleFormat.OURS, honest, crafted)


def test_an_empty_answer_is_left_to_the_slow_way() -> None:
    assert not fast_same(SampleFormat.RESPONSES, response(text=""), response(text=""))
    assert read(SampleFormat.RESPONSES, response(text="")).empty


@given(
    form=st.sampled_from(list(MAKERS)),
    top=st.dictionaries(TOKENS, st.floats(-9, 0), max_size=3),
    other=st.dictionaries(TOKENS, st.floats(-9, 0), max_size=3),
    texts=st.tuples(st.sampled_from(["Paris", "id", ""]), st.sampled_from(["Paris", "id", ""])),
)
def test_two_answers_are_never_alike_unless_they_are_the_same(
    form: SampleFormat, top: dict[str, float], other: dict[str, float], texts: tuple[str, str]
) -> None:
    left, right = MAKERS[form](text=texts[0], top=top), MAKERS[form](text=texts[1], top=other)

    assert not fast_same(form, left, right) or slow_same(form, left, right)


@given(
    form=st.sampled_from(list(MAKERS)),
    edits=st.lists(
        st.tuples(
            st.integers(0, 400),
            st.integers(0, 4),
            st.sampled_from(
                [
                    b"",
                    b"x",
                    b'"',
                    b"{",
                    b"}",
                    b",",
                    b":",
                    b"1",
                    b"\\",
                    b'"id":"q",',
                    b', "digest": "',
                    b"\xff",
                ]
            ),
        ),
        min_size=1,
        max_size=3,
    ),
    both=st.booleans(),
)
def test_random_edits_never_make_different_answers_alike(
    form: SampleFormat, edits: list[tuple[int, int, bytes]], both: bool
) -> None:
    line = MAKERS[form](top={"id": -1.0, "created": -2.0})
    changed = line
    for at, removed, put in edits:
        changed = changed[:at] + put + changed[at + removed :]
    left = changed if both else line

    assert not fast_same(form, left, changed) or slow_same(form, left, changed)

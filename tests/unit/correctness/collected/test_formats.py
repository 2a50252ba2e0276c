# SPDX-License-Identifier: Apache-2.0
"""Forms are told apart by content, and their records read."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.correctness.collected.formats import (
    ID_KEYS,
    TEXT_KEYS,
    AmbiguousError,
    Entry,
    SampleFormat,
    blocks,
    named,
    read,
    recognise,
)
from ci_doctor.errors import UsageError
from ci_doctor.load.answer_items import packed
from ci_doctor.load.canonical import text_of


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (
            b'{"arm": "baseline", "start": 1, "pass": 1, "id": "r0", "output": null}',
            SampleFormat.OURS,
        ),
        (b'{"id": "x", "choices": []}', SampleFormat.RESPONSES),
        (b'{"object": "response", "output": [], "text": {}}', SampleFormat.RESPONSES),
        (b'{"id": "x", "data": [{"embedding": [0.5]}]}', SampleFormat.RESPONSES),
        (b'{"results": [{"index": 0, "relevance_score": 1}]}', SampleFormat.RESPONSES),
        (b'{"id": 1, "text": "a", "scores": [0.5]}', SampleFormat.ROWS),
        (b'{"error": {"message": "no"}}', SampleFormat.RESPONSES),
        (b'{"custom_id": "r0", "response": {"status_code": 200}}', SampleFormat.BATCH),
        (b'{"prompt": "a", "generated_text": "b"}', SampleFormat.ROWS),
        (b'{"doc_id": 3, "resps": [["b"]]}', SampleFormat.ROWS),
        (b"chatcmpl-WJidmXp_0:\n", SampleFormat.LMCACHE),
        (b"hRPPgZT_11:\n", SampleFormat.LMCACHE),
        (b"Answer:\n", None),
        (b"not samples\n", None),
        (b'{"unknown": 1}', None),
    ],
)
def test_a_form_is_known_by_its_first_line(line: bytes, form: SampleFormat | None) -> None:
    assert recognise(line) is form


def test_a_mistyped_form_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError) as raised:
        named("respones")

    assert raised.value.hint == "did you mean `responses`?"


def contents(text: bytes) -> dict[str, bytes]:
    return {
        name: text[at : at + length] for name, at, length in blocks(text.splitlines(keepends=True))
    }


def test_blocks_hold_many_lines_and_prose_with_colons() -> None:
    text = b"chatcmpl-WJidmXp_0:\nFirst:\nNote: this\n\nchatcmpl-WJidmXp_10:\n\nchatcmpl-hRPPgZT_2:\nlast\n"

    assert contents(text) == {
        "chatcmpl-WJidmXp_0": b"First:\nNote: this\n",
        "chatcmpl-WJidmXp_10": b"",
        "chatcmpl-hRPPgZT_2": b"last",
    }


@pytest.mark.parametrize("first", ["é-1", "答-1", "x²-1"])
def test_the_first_block_counts_whatever_letters_its_id_has(first: str) -> None:
    second = first.replace("1", "2")
    text = f"{first}:\nx\n{second}:\ny\n".encode()
    assert contents(text) == {first: b"x", second: b"y"}


@pytest.mark.parametrize(
    "text",
    [
        b"once upon\na_0:\nx\n",
        b"Answer:\nx\n",
        b"a_0:\nx\na_0:\ny\n",
        b"\xff-1:\nx\n\xff-2:\ny\n",
    ],
)
def test_blocks_that_cannot_be_told_apart_are_refused(text: bytes) -> None:
    with pytest.raises(AmbiguousError):
        contents(text)


@pytest.mark.parametrize("identity", ID_KEYS)
@pytest.mark.parametrize("key", TEXT_KEYS)
def test_a_row_is_read_under_every_key_of_the_table(identity: str, key: str) -> None:
    entry = read(SampleFormat.ROWS, json.dumps({identity: 7, key: "Paris"}).encode())

    assert (entry.id, entry.output) == ("7", {"choices": [{"index": 0, "text": "Paris"}]})


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (SampleFormat.RESPONSES, '{"id": "x", "choices": []}'),
        (SampleFormat.RESPONSES, '{"id": "x", "object": "error", "message": "no"}'),
        (SampleFormat.RESPONSES, "[]"),
        (
            SampleFormat.BATCH,
            '{"custom_id": "x", "response": {"status_code": 500, "body": {}}, "error": null}',
        ),
        (SampleFormat.BATCH, '{"custom_id": "x", "response": null, "error": {"code": "expired"}}'),
        (SampleFormat.ROWS, '{"id": "x", "success": false, "generated_text": ""}'),
        (SampleFormat.ROWS, '{"id": "x", "output": {"no": "text"}}'),
        (SampleFormat.ROWS, '{"id": "x", "output": "Paris", "output": "Rome"}'),
        (
            SampleFormat.BATCH,
            '{"custom_id": "x", "response": {"body": {"choices": [{"text": "a", "text": "b"}]}}}',
        ),
        (
            SampleFormat.OURS,
            '{"arm": "baseline", "start": 1, "pass": 1, "id": "x", "error": "HTTP 500", "output": null}',
        ),
        (SampleFormat.OURS, '{"arm": [], "start": 1, "pass": 1, "id": "x", "output": {}}'),
        (
            SampleFormat.OURS,
            '{"arm": "neither", "start": 1, "pass": 1, "id": "x", "output": {"choices": []}}',
        ),
    ],
)
def test_what_is_no_answer_is_an_error(form: SampleFormat, line: str) -> None:
    entry = read(form, line.encode())

    assert entry.error
    assert entry.digest is None


def test_a_batch_line_is_the_same_answer_as_the_response_in_it() -> None:
    body = {"id": "a", "created": 1, "choices": [{"index": 0, "text": "Paris"}]}
    line = {"custom_id": "r0", "response": {"status_code": 200, "body": body}, "error": None}

    batch = read(SampleFormat.BATCH, json.dumps(line).encode())

    assert batch.id == "r0"
    assert batch.digest == read(SampleFormat.RESPONSES, json.dumps(body).encode()).digest


def ours(**changes: Any) -> bytes:
    line = {
        "arm": "baseline",
        "start": 1,
        "pass": 1,
        "id": "r0",
        "status": 200,
        "error": None,
        "output": {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]},
        **changes,
    }
    return json.dumps(line).encode() + b"\n"


def test_a_sample_of_vectors_is_an_answer_and_one_of_zeros_is_empty() -> None:
    def vectors(*numbers: float) -> Entry:
        item = {"index": 0, "float32": packed(numbers)}
        return read(SampleFormat.OURS, ours(output={"kind": "vector", "items": [item]}))

    assert vectors(0.5, 0.0).digest is not None
    assert not vectors(0.5, 0.0).empty
    assert vectors(0.0, 0.0).empty


def test_a_collected_vector_is_the_same_answer_as_a_sample_of_it() -> None:
    line = b'{"id": "r0", "data": [{"index": 0, "embedding": [0.5, 2]}], "model": "m"}'
    collected = read(SampleFormat.RESPONSES, line)
    assert collected.error is None
    assert read(SampleFormat.OURS, ours(output=collected.output)).digest == collected.digest


@pytest.mark.parametrize("key", ["start", "pass"])
@pytest.mark.parametrize("value", [True, 0, -1, 10**9, 1.0, "1", None, [1]])
def test_starts_and_passes_count_from_one(key: str, value: Any) -> None:
    entry = read(SampleFormat.OURS, ours(**{key: value}))
    assert entry.digest is None
    assert "is missing or wrong" in (entry.error or "")


@pytest.mark.parametrize(
    "output",
    [
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"text": ["a"]}]},
        {"choices": [{"text": 5}]},
        {"choices": [{"message": ["a"]}]},
        {"choices": [{"message": {"tool_calls": 5}}]},
        {"choices": [{"message": {"tool_calls": ["f"]}}]},
        {"choices": [{"text": "a", "finish_reason": "abort"}]},
        {"choices": [{"text": "a", "finish_reason": None}]},
        {"choices": [{"text": "a"}], "completion_tokens": "1"},
        {"choices": "a"},
        {"kind": "vector", "items": []},
        {"kind": "vector", "items": [{"index": 0, "float32": "AAAA"}]},
        {"kind": "vector", "items": [{"index": 0, "float32": 3}]},
        {"kind": "vector", "items": [{"numbers": [1]}]},
        {"kind": "score", "items": [{"index": 0}]},
        {"kind": "score", "items": ["a"]},
        {"kind": ["vector"], "items": [{"index": 0, "numbers": [1]}]},
        {"kind": "idea", "items": [{"index": 0, "numbers": [1]}]},
        ["a"],
    ],
)
def test_a_sample_of_ours_with_another_shape_is_no_answer(output: Any) -> None:
    assert read(SampleFormat.OURS, ours(output=output)).digest is None


def test_a_sample_of_ours_is_an_answer_if_it_was_a_success() -> None:
    assert read(SampleFormat.OURS, ours()).digest is not None
    assert read(SampleFormat.OURS, ours(status=500)).error == "HTTP 500"


KEYS = st.sampled_from([
    "arm", "start", "pass", "id", "status", "error", "output", "choices", "response", "body", "text", "resps", "custom_id",
])  # fmt: skip
INNER_KEYS = st.sampled_from(
    ["choices", "text", "message", "tool_calls", "index", "body", "status_code"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(INNER_KEYS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([form for form in SampleFormat if form is not SampleFormat.LMCACHE]),
    st.dictionaries(KEYS, JSON),
)
def test_no_line_crashes_it(form: SampleFormat, change: dict[str, Any]) -> None:
    entry = read(form, ours(**change))
    assert (entry.digest is None) is (entry.output is None)
    text_of(entry.output or {})


@pytest.mark.parametrize("depth", [900, 950, 980, 990, 5000])
def test_a_row_nested_too_deep_is_an_error_and_no_crash(depth: int) -> None:
    entry = read(SampleFormat.ROWS, b'{"resps": ' + b"[" * depth + b'"a"' + b"]" * depth + b"}")
    assert (entry.digest is None) is (entry.error is not None)

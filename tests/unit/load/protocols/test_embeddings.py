# SPDX-License-Identifier: Apache-2.0
import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.load.answer_items import item_numbers
from ci_doctor.load.canonical import Canonical, check_output, encode, is_blank, text_of
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols.embeddings import EMBEDDINGS
from ci_doctor.load.strict_json import parse

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def answer(*vectors: Any, **more: Any) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 4, "total_tokens": 4}
    return {"id": "embd-1", "object": "list", "model": "e5", "data": data, "usage": usage, **more}


def read(value: Any, body: dict[str, Any] | None = None) -> Canonical:
    canonical = EMBEDDINGS.read(value, body)
    check_output(canonical.output)
    return canonical


def vectors_of(canonical: Canonical) -> list[list[float]]:
    return [list(item_numbers(item)) for item in canonical.output["items"]]


def packed(numbers: list[float], form: str = "<{}f") -> str:
    return base64.b64encode(struct.pack(form.format(len(numbers)), *numbers)).decode()


@given(st.lists(FINITE, min_size=1, max_size=9))
def test_a_list_and_base64_of_the_same_numbers_are_the_same_answer(numbers: list[float]) -> None:
    listed = read(answer(json.loads(json.dumps(numbers))))
    assert listed.digest == read(answer(packed(numbers))).digest
    assert encode(vectors_of(listed)) == encode([numbers])


def test_digits_beyond_float32_are_no_difference_and_one_step_is() -> None:
    assert read(answer([0.1])).digest == read(answer([0.10000000149011612])).digest
    assert read(answer([0.1])).digest != read(answer([0.10000000894069672])).digest
    assert read(answer([0.0])).digest != read(answer([-0.0])).digest


def test_what_differs_from_call_to_call_is_no_difference() -> None:
    other = answer([1.0], id="embd-2", created=7)
    assert read(other).digest == read(answer([1.0])).digest
    assert read(other).meta["id"] == "embd-2"
    assert read(other).prompt_facts == {"model": "e5", "prompt_tokens": 4}


def test_the_vectors_come_in_the_order_of_the_texts() -> None:
    value = answer([1.0], [2.0])
    value["data"].reverse()
    assert vectors_of(read(value, {"input": ["x", "y"]})) == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("<{}e", {"embed_dtype": "float16"}),
        (">{}f", {"endianness": "big"}),
        (">{}e", {"endianness": "big", "embed_dtype": "float16"}),
    ],
)
def test_base64_of_another_type_is_read_as_the_request_asks(
    form: str, body: dict[str, Any]
) -> None:
    assert vectors_of(read(answer(packed([0.5, -2.0], form)), body)) == [[0.5, -2.0]]


def test_base64_of_bfloat16_is_read() -> None:
    upper_halves = struct.pack("<2H", 0x3F80, 0xC000)
    vector = base64.b64encode(upper_halves).decode()
    assert vectors_of(read(answer(vector), {"embed_dtype": "bfloat16"})) == [[1.0, -2.0]]


@pytest.mark.parametrize(
    "value",
    [
        [[1.0, 2.0]],
        {"id": "x", "embeddings": [[1.0, 2.0]]},
        {"id": "x", "embeddings": {"float": [[1.0, 2.0]], "int8": None}},
        {"embeddings": {"base64": [packed([1.0, 2.0])]}},
        {"data": [{"embedding": [1, 2]}]},
    ],
)
def test_the_forms_of_other_servers_are_the_same_vector(value: Any) -> None:
    assert read(value).output == read(answer([1.0, 2.0])).output


@pytest.mark.parametrize(
    ("value", "body", "reason"),
    [
        (answer(), {}, "no `data`"),
        ({}, {}, "no `data`"),
        ([], {}, "no vector in the answer"),
        ({"embeddings": []}, {}, "no vector in the answer"),
        (answer("AAAA"), {"embed_dtype": ["float32"]}, "cannot be read"),
        (7, {}, "no `data`"),
        (answer([]), {}, "holds no number"),
        (answer(None), {}, "is not a list of numbers"),
        (answer([0.5, None]), {}, r"holds null \(NaN\) at position 1"),
        (answer([True]), {}, "holds no number at position 0"),
        (answer(["1"]), {}, "holds no number at position 0"),
        (answer([10**400]), {}, "beyond all doubles"),
        (answer([1e39]), {}, "NaN or infinity"),
        (answer("*"), {}, "not base64 of float32"),
        (answer("AAAA"), {}, "not base64 of float32"),
        (answer(packed([float("nan")])), {}, "NaN or infinity"),
        (answer(packed([1.0])), {"embed_dtype": "fp8_e4m3"}, "base64 of fp8_e4m3 cannot be read"),
        (answer([1.0]), {"input": ["x", "y"]}, "1 results in the answer, 2 were requested"),
        (answer([1.0], [2.0]), {"input": [1, 2, 3]}, "2 results in the answer, 1 were requested"),
        ({"data": [{"index": 1, "embedding": [1]}]}, {}, "not each one once"),
        ({"data": [{"index": True, "embedding": [1]}]}, {}, "no place in a list"),
        ({"data": ["x"]}, {}, r"`data\[0\]` is not an object"),
        ({"embeddings": {"float": [[1]], "int8": [[1]]}}, {}, "in one type"),
    ],
)
def test_what_holds_no_whole_vectors_is_no_answer(
    value: Any, body: dict[str, Any], reason: str
) -> None:
    with pytest.raises(NotAnAnswerError, match=reason):
        read(value, body)


def test_a_vector_of_zeros_is_an_empty_answer() -> None:
    zeros = read(answer([0.0, -0.0]))
    assert zeros.empty
    assert is_blank(zeros.output)
    assert not read(answer([0.0], [1.0])).empty


def test_the_text_for_people_tells_any_two_vectors_apart() -> None:
    ours = text_of(read(answer([0.1, 1e-30])).output)
    assert ours == "0: 0.100000001 1e-30"
    assert ours != text_of(read(answer([0.10000000894069672, 1e-30])).output)


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (answer([1.0]), True),
        ([[1.0]], True),
        ({"embeddings": {}}, True),
        ({"data": [{"score": 1}]}, False),
        ([], False),
        (None, False),
    ],
)
def test_vectors_are_recognised_by_their_form(value: Any, *, known: bool) -> None:
    assert EMBEDDINGS.recognises(value) is known


def test_json_with_nan_never_becomes_a_vector() -> None:
    with pytest.raises(ValueError, match="NaN"):
        parse('{"data": [{"index": 0, "embedding": [NaN]}]}')

# SPDX-License-Identifier: Apache-2.0
import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.correctness.asking import control_requests
from ci_doctor.load.answer_items import NotAnAnswerError, item_numbers, parts
from ci_doctor.load.canonical import (
    Canonical,
    check_output,
    encode,
    is_blank,
    is_empty_output,
    text_of,
)
from ci_doctor.load.protocols import (
    BY_NAME,
    EMBEDDINGS,
    GENERATE,
    JSON_VALUE,
    PROTOCOLS,
    USUAL_PATHS,
    expected_choices,
    of_answer,
    of_path,
)
from ci_doctor.load.requests import Request, protocol_of, read_answer, read_collected


@pytest.mark.parametrize(
    ("body", "choices"),
    [
        ({"prompt": "x"}, 1),
        ({"prompt": "x", "n": 3}, 3),
        ({"prompt": "x", "n": None}, 1),
        ({"prompt": ["x", "y"], "n": 2}, 4),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": [[1, 2], [3]]}, 2),
        ({"messages": [{"role": "user", "content": "x"}]}, 1),
        ({"prompt": "x", "prompt_embeds": ["…"]}, None),
        ({"prompt": "x", "n": "2"}, None),
        ({"input": "x"}, None),
        (None, None),
    ],
)
def test_how_many_choices_an_answer_must_have(
    body: dict[str, Any] | None, choices: int | None
) -> None:
    assert expected_choices(body) == choices


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


def packed(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


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
    ("content", "body"),
    [
        (struct.pack("<2e", 1.0, -2.0), {"embed_dtype": "float16"}),
        (struct.pack(">2f", 1.0, -2.0), {"endianness": "big"}),
        (struct.pack(">2e", 1.0, -2.0), {"endianness": "big", "embed_dtype": "float16"}),
        # The upper halves of these float32.
        (struct.pack("<2H", 0x3F80, 0xC000), {"embed_dtype": "bfloat16"}),
    ],
)
def test_base64_of_another_type_is_read_as_the_request_asks(
    content: bytes, body: dict[str, Any]
) -> None:
    vector = base64.b64encode(content).decode()
    assert vectors_of(read(answer(vector), body)) == [[1.0, -2.0]]


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


TOKENS = [
    {"id": 5, "text": "a", "logprob": -0.5, "special": False},
    {"id": 6, "text": "b", "logprob": -0.25, "special": False},
]
DETAILS = {"finish_reason": "length", "generated_tokens": 2, "tokens": TOKENS}
TGI = {"generated_text": "ab", "details": DETAILS}


def test_an_answer_of_text_generation_inference_has_text_tokens_and_numbers() -> None:
    (choice,) = GENERATE.read(TGI, {"inputs": "x"}).output["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("ab", "length")
    assert choice["token_ids"] == [5, 6]
    other = {**TGI, "details": {**DETAILS, "tokens": [TOKENS[0], {**TOKENS[1], "id": 7}]}}
    assert GENERATE.read(other, None).digest != GENERATE.read(TGI, None).digest


def test_a_log_probability_counts_as_a_number_and_not_as_a_word() -> None:
    changed = [TOKENS[0], {**TOKENS[1], "logprob": -0.26}]
    other = {**TGI, "details": {**DETAILS, "tokens": changed}}
    one, two = (GENERATE.read(value, None) for value in (TGI, other))
    assert one.digest != two.digest
    assert parts(one.output).words == parts(two.output).words


def test_sglang_says_why_it_stopped_in_its_meta_info() -> None:
    value = {
        "text": " a",
        "output_ids": [5],
        "meta_info": {
            "id": "x",
            "finish_reason": {"type": "length", "length": 1},
            "e2e_latency": 1,
        },
    }
    (choice,) = GENERATE.read(value, {"text": "x"}).output["choices"]
    assert choice == {"index": 0, "text": " a", "token_ids": [5], "finish_reason": "length"}
    slower = {**value, "meta_info": {**value["meta_info"], "e2e_latency": 2}}  # type: ignore[dict-item]
    assert GENERATE.read(slower, None).digest == GENERATE.read(value, None).digest


def test_a_list_of_texts_is_one_answer_in_its_order() -> None:
    several = GENERATE.read(
        [{"generated_text": "a"}, {"generated_text": "b"}], {"inputs": ["x", "y"]}
    )
    assert [choice["text"] for choice in several.output["choices"]] == ["a", "b"]
    (one,) = GENERATE.read({"text": ["a"]}, None).output["choices"]
    assert one["text"] == "a"


@pytest.mark.parametrize(
    ("value", "body", "said"),
    [
        ({}, None, "neither"),
        ("a", None, "a JSON str"),
        ([], None, "no `choices`"),
        ({"generated_text": "a"}, {"inputs": ["x", "y"]}, "1 choices"),
        ({"generated_text": "a", "details": []}, None, "not an object"),
        ({"generated_text": "a", "details": {"tokens": [1]}}, None, "not an object"),
        ({"text": "a", "meta_info": {"finish_reason": {"type": "abort"}}}, None, "broke"),
    ],
)
def test_what_is_no_whole_answer_is_refused(value: Any, body: Any, said: str) -> None:
    with pytest.raises(NotAnAnswerError, match=said):
        GENERATE.read(value, body)


def test_the_order_of_keys_is_no_difference_and_every_value_is_one() -> None:
    one = JSON_VALUE.read({"a": 1, "b": [2.5]}, None)
    assert one.digest == JSON_VALUE.read({"b": [2.5], "a": 1}, None).digest
    assert one.digest != JSON_VALUE.read({"a": 1, "b": [2.6]}, None).digest


@pytest.mark.parametrize("value", [[], {}, 0, "", None, [1]])
def test_every_json_value_is_an_answer(value: object) -> None:
    assert not JSON_VALUE.read(value, None).empty


def test_no_request_of_it_is_a_control_because_its_answer_may_depend_on_nothing() -> None:
    request = Request(id="a", path="/x", body={"text": "some words"}, line=1, protocol="json")
    assert list(control_requests([request], {"a": (3, 10)})) == []


# Those that mean something, so that what is drawn is nearly an answer.
KEYS = [
    "data", "embedding", "embeddings", "float", "base64", "index", "results", "relevance_score", "score",
    "scores", "probs", "label", "document", "text", "usage", "prompt_tokens", "model", "object", "id",
]  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 2, -1, 10**400, 0.5, 1e300, -0.0, "", "a", "AACAPw==", "\ud800"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=4)
    ),
    max_leaves=10,
)


def nearly_answers() -> st.SearchStrategy[Any]:
    """Values that have the outer form of an answer, with anything inside."""
    part = st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=4)
    listed = st.lists(part, min_size=1, max_size=2)
    whole = [st.fixed_dictionaries({key: listed}) for key in ("data", "results")]
    return st.one_of(JSON, listed, *whole)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
@settings(max_examples=40, deadline=None)
@given(
    value=nearly_answers(),
    body=st.none()
    | st.dictionaries(
        st.sampled_from(["input", "documents", "top_n", "text_1", "embed_dtype"]), JSON
    ),
)
def test_any_value_is_an_answer_or_refused(protocol: Any, value: Any, body: Any) -> None:
    protocol.recognises(value)
    try:
        canonical = protocol.read(value, body)
    except NotAnAnswerError:
        return
    encode(canonical.output)
    check_output(canonical.output)
    parts(canonical.output)
    text_of(canonical.output)
    assert is_empty_output(canonical.output) <= is_blank(canonical.output)


@pytest.mark.parametrize("value", [{"text": [None]}, {"generated_text": None}])
def test_an_answer_whose_text_is_null_is_empty_and_can_be_read_again(value: Any) -> None:
    canonical = GENERATE.read(value, None)

    assert canonical.empty
    check_output(canonical.output)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/completions", "completions"),
        ("/v1/chat/completions", "chat"),
        ("/openai/v1/chat/completions?api-version=3", "chat"),
        ("/v1/responses/", "responses"),
        ("/v1/embeddings", "embeddings"),
        ("/v2/embed", "embeddings"),
        ("/classify", "classify"),
        ("/v1/score", "score"),
        ("/rerank", "rerank"),
        ("/v2/rerank", "rerank"),
        ("/generate", "generate"),
    ],
)
def test_a_path_tells_its_protocol(path: str, name: str) -> None:
    protocol = of_path(path)
    assert protocol is not None
    assert protocol.name == name


@pytest.mark.parametrize("path", ["/generator", "/", "/v1/embeddings/x", "/a?b=/completions"])
def test_no_protocol_serves_a_path_of_another_kind(path: str) -> None:
    assert of_path(path) is None


def test_every_protocol_is_found_by_its_usual_path_and_its_name() -> None:
    with_paths = [protocol for protocol in PROTOCOLS if protocol.paths]
    for protocol, path in zip(with_paths, USUAL_PATHS, strict=True):
        assert of_path(path) is protocol
    assert {each.name: each for each in PROTOCOLS} == BY_NAME


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"choices": []}, "chat"),
        ({"object": "response", "output": []}, "responses"),
        ({"data": [{"embedding": [1]}]}, "embeddings"),
        ([[1.0]], "embeddings"),
        ({"embeddings": {}}, "embeddings"),
        ({"data": [{"probs": [1]}]}, "classify"),
        ({"data": [{"score": 1}]}, "score"),
        ({"scores": [1]}, "score"),
        ({"results": [{"index": 0, "relevance_score": 1}]}, "rerank"),
        ([{"index": 0, "score": 1}], "rerank"),
        ({"generated_text": "a"}, "generate"),
        ({"text": "a", "meta_info": {}}, "generate"),
    ],
)
def test_a_collected_answer_is_known_by_its_form_and_by_no_other(value: Any, name: str) -> None:
    first = of_answer(value)
    assert first is not None
    assert first.name == name
    others = [each.name for each in PROTOCOLS if each.recognises(value)]
    assert set(others) <= ({"chat", "completions"} if name == "chat" else {name})


@pytest.mark.parametrize("value", [{}, [], None, 3, {"data": []}, {"data": {}}, {"results": 1}])
def test_what_has_no_known_form_has_no_protocol(value: Any) -> None:
    assert of_answer(value) is None


def test_a_request_is_read_by_the_protocol_that_it_names() -> None:
    request = Request(id="a", path="/mine", body={}, line=1, protocol="score")
    assert protocol_of(request).name == "score"
    answer = read_answer(request, b'{"data": [{"score": 1}]}', streamed=False)
    assert answer.output["kind"] == "score"
    with pytest.raises(NotAnAnswerError, match="score answers are never streamed"):
        read_answer(request, b"data: {}\n\n", streamed=True)


def test_a_collected_answer_of_no_known_form_is_none() -> None:
    assert read_collected(b'{"data": [{"probs": [1]}]}').output["kind"] == "label"
    with pytest.raises(NotAnAnswerError, match="no `choices`"):
        read_collected(b"{}")
    with pytest.raises(NotAnAnswerError, match='an error in a 200 response: "x"'):
        read_collected(b'{"error": "x", "data": [{"probs": [1]}]}')

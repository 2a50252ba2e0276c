# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.load.answers import protocol_of, read_answer, read_collected
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols.table import BY_NAME, PROTOCOLS, USUAL_PATHS, of_answer, of_path
from ci_doctor.load.requests import Request


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
    assert {name: BY_NAME[name] for name in BY_NAME} == {each.name: each for each in PROTOCOLS}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"choices": []}, "chat"),
        ({"object": "response", "output": []}, "responses"),
        ({"data": [{"embedding": [1]}]}, "embeddings"),
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

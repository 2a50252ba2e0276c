# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.load.requests import Request
from ci_doctor.load.shorter_prompt import Cut, halved, prompt_length, with_prompt


def request(**body: Any) -> Request:
    return Request(id="r0", path="/v1/completions", body=body, line=1)


def beginning(prompt: Cut) -> Cut:
    return prompt[:2]


CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why so"}]


@pytest.mark.parametrize(
    ("body", "count", "unit", "cut"),
    [
        ({"prompt": "abcdef", "n": 1}, 6, "characters", {"prompt": "ab", "n": 1}),
        ({"prompt": [7, 8, 9]}, 3, "tokens", {"prompt": [7, 8]}),
        ({"input": "abc"}, 3, "characters", {"input": "ab"}),
        (
            {"messages": CHAT},
            6,
            "characters",
            {"messages": [CHAT[0], {"role": "user", "content": "wh"}]},
        ),
    ],
)
def test_the_beginning_of_a_prompt_is_sent_with_the_same_parameters(
    body: dict[str, Any], count: int, unit: str, cut: dict[str, Any]
) -> None:
    asked = request(**body)
    length = prompt_length(asked)
    assert length is not None
    assert (length.count, length.unit) == (count, unit)
    assert with_prompt(asked, beginning).body == cut
    assert asked.body == body


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": ["one", "two"]},
        {"prompt": [True, False]},
        {"messages": []},
        {"messages": ["hi"]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    ],
)
def test_a_prompt_of_another_form_has_no_length_and_cannot_be_cut(body: dict[str, Any]) -> None:
    assert prompt_length(request(**body)) is None
    with pytest.raises(ValueError, match="cannot be cut"):
        with_prompt(request(**body), beginning)


def test_lengths_are_halved_until_one_is_left_or_there_are_enough() -> None:
    assert list(halved(10, 8)) == [5, 2, 1]
    assert list(halved(4096, 3)) == [2048, 1024, 512]
    assert list(halved(1, 8)) == []

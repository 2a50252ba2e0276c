# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.load.prompts import (
    Cut,
    PromptChange,
    changed_body,
    halved,
    is_free,
    prompt_length,
    with_prompt,
)
from ci_doctor.load.requests import Request


def asked(path: str = "/v1/completions", **body: Any) -> Request:
    return Request(id="r0", path=path, body=body, line=1)


@pytest.mark.parametrize("change", PromptChange)
@pytest.mark.parametrize(
    ("key", "prompt"),
    [
        ("prompt", "one two"),
        ("prompt", ["one two", "three"]),
        ("prompt", [5, 6, 7]),
        ("prompt", [5]),
        ("prompt", [5, 5]),
        ("prompt", [[5, 6], [7, 7]]),
        ("messages", [{"role": "user", "content": "one two"}]),
        ("messages", [{"role": "user", "content": [{"type": "text", "text": "one"}]}]),
        ("input", "one two"),
        ("query", "one two"),
        ("text_1", ["one", "two"]),
    ],
)
def test_every_form_of_a_prompt_is_changed_and_keeps_its_form(
    key: str, prompt: Any, change: PromptChange
) -> None:
    body = changed_body(asked(**{key: prompt}, max_tokens=9), change)
    assert body is not None
    assert body["max_tokens"] == 9
    changed = body[key]
    assert changed != prompt
    assert type(changed) is type(prompt)
    if isinstance(prompt, list) and isinstance(prompt[0], str | list):
        assert len(changed) == len(prompt), "each prompt has its answer"
        assert all(new != old for new, old in zip(changed, prompt, strict=True))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": None},
        {"prompt": []},
        {"prompt": [1.5]},
        {"prompt_embeds": "AAAA"},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
    ],
)
def test_a_body_without_a_known_prompt_has_no_copy(body: dict[str, Any]) -> None:
    assert changed_body(asked(**body), PromptChange.REVERSED) is None


def test_the_words_of_the_last_message_of_the_user_are_reversed() -> None:
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "one two three"},
        {"role": "assistant", "content": "and"},
    ]
    body = changed_body(asked(messages=messages), PromptChange.REVERSED)
    assert body is not None
    assert body["messages"][3]["content"].startswith("three two one ")
    assert [*body["messages"][:3], body["messages"][4]] == [*messages[:3], messages[4]]


def test_the_other_prompt_is_short_and_leaves_the_rest_of_a_chat() -> None:
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "y " * 9000}]
    body = changed_body(asked(messages=messages), PromptChange.REPLACED)
    assert body is not None
    first, message = body["messages"]
    assert (first, message["role"]) == (messages[0], "user")
    assert len(message["content"]) < 100


@pytest.mark.parametrize(
    ("request_", "free"),
    [
        (asked(prompt="x"), True),
        (asked(prompt="x", max_tokens=16, tools=[], tool_choice="auto"), True),
        (asked(prompt="x", response_format={"type": "text"}), True),
        (asked("/v1/responses", input="x"), True),
        (asked(prompt="x", max_tokens=1), False),
        (asked(messages=[], max_completion_tokens=2), False),
        (asked(prompt="x", guided_choice=["a", "b"]), False),
        (asked(prompt="x", response_format={"type": "json_object"}), False),
        (asked(messages=[], tool_choice="required"), False),
        (asked("/v1/embeddings", input="x"), False),
    ],
)
def test_a_request_for_a_label_a_form_or_a_vector_does_not_leave_the_model_free(
    request_: Request, free: bool
) -> None:
    assert is_free(request_) is free


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
    request = asked(**body)
    length = prompt_length(request)
    assert length is not None
    assert (length.count, length.unit) == (count, unit)
    assert with_prompt(request, beginning).body == cut
    assert request.body == body


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
    assert prompt_length(asked(**body)) is None
    with pytest.raises(ValueError, match="cannot be cut"):
        with_prompt(asked(**body), beginning)


def test_lengths_are_halved_until_one_is_left_or_there_are_enough() -> None:
    assert list(halved(10, 8)) == [5, 2, 1]
    assert list(halved(4096, 3)) == [2048, 1024, 512]
    assert list(halved(1, 8)) == []

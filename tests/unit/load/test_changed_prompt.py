# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.load.changed_prompt import PromptChange, changed_body
from ci_doctor.load.prompts import is_free
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
    ("body", "free"),
    [
        ({"prompt": "x"}, True),
        ({"prompt": "x", "max_tokens": 16, "tools": [], "tool_choice": "auto"}, True),
        ({"prompt": "x", "response_format": {"type": "text"}}, True),
        ({"prompt": "x", "max_tokens": 1}, False),
        ({"messages": [], "max_completion_tokens": 2}, False),
        ({"prompt": "x", "guided_choice": ["a", "b"]}, False),
        ({"prompt": "x", "response_format": {"type": "json_object"}}, False),
        ({"messages": [], "tool_choice": "required"}, False),
    ],
)
def test_a_request_for_a_label_or_a_form_does_not_leave_the_model_free(
    body: dict[str, Any], free: bool
) -> None:
    assert is_free(asked(**body)) is free


def test_an_embedding_is_no_text_that_a_model_writes() -> None:
    assert not is_free(asked("/v1/embeddings", input="x"))
    assert is_free(asked("/v1/responses", input="x"))

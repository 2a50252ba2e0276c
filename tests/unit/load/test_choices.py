# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest

from ci_doctor.load.choices import NotAnAnswerError, compared_choice, is_empty

CALL: dict[str, Any] = {"id": "call_1", "function": {"name": "f", "arguments": '{"a": 1}'}}


def with_message(**message: Any) -> dict[str, Any]:
    return {"index": 0, "message": message}


def test_a_tool_calls_id_is_random_its_name_and_raw_arguments_are_not() -> None:
    def call(**function: str) -> dict[str, Any]:
        other = json.loads(json.dumps(CALL))
        other["id"] = "call_2"
        other["function"].update(function)
        return compared_choice(with_message(tool_calls=[other]))

    assert call() == compared_choice(with_message(tool_calls=[CALL]))
    assert call(arguments='{"a":1}') != call()
    assert call(name="g") != call()


@pytest.mark.parametrize(
    ("choice", "empty"),
    [
        ({"text": ""}, True),
        ({"text": None}, True),
        ({"text": "", "token_ids": [5]}, False),
        ({"text": "hello"}, False),
        (with_message(role="assistant", content=None, tool_calls=[CALL]), False),
        ({"message": {"role": "assistant", "content": ""}}, True),
        ({"message": {"reasoning_content": "so"}}, False),
        ({"message": {"function_call": {"name": "f", "arguments": ""}}}, False),
    ],
)
def test_a_choice_without_text_reasoning_call_or_token_is_empty(
    choice: dict[str, Any], empty: bool
) -> None:
    assert is_empty(compared_choice(choice)) is empty


def test_an_empty_text_of_a_completion_is_a_part_of_it() -> None:
    assert compared_choice({"text": ""})["text"] == ""


@pytest.mark.parametrize("key", ["text", "finish_reason", "stop_reason", "matched_stop"])
def test_what_decides_an_answer_is_compared(key: str) -> None:
    choice = {"text": "hello", "finish_reason": "stop"}
    assert compared_choice({**choice, key: "other"})[key] == "other"
    assert "id" not in compared_choice({**choice, "id": "cmpl-1"})


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_what_a_call_gives_its_tool_is_compared(kind: str) -> None:
    keys = {"function": "arguments", "custom": "input"}

    def call(given: str) -> dict[str, Any]:
        tool = {"name": "f", keys[kind]: given}
        return compared_choice(with_message(tool_calls=[{"id": "x", "type": kind, kind: tool}]))

    assert call("one") != call("other")


def test_a_call_that_names_no_tool_is_no_answer() -> None:
    with pytest.raises(NotAnAnswerError, match="does not name its tool"):
        compared_choice(with_message(tool_calls=[{"function": {"arguments": "{}"}}]))

# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.services.probes.json_condition import parse_condition

DOCUMENT: dict[str, Any] = {
    "data": [{"id": "qwen", "max": 4096}],
    "status": "ok",
    "workers": 2,
    "one": 1.0,
    "true": True,
    "none": None,
    "empty": [],
    "a b": {"c-d": [1, [True]]},
}


@pytest.mark.parametrize(
    "text",
    [
        "data",
        "data[0].id",
        "data.0.id",
        "data[-1].id",
        '["a b"].c-d',
        'data[0].id == "qwen"',
        'data.0.id != "llama"',
        'status=="ok"',
        " workers >= 2 ",
        "workers > 1",
        "workers < 3",
        "workers <= 2.0",
        "one == 1",
        "true == true",
        "none == null",
        "empty == []",
        '["a b"] == {"c-d": [1, [true]]}',
        "true != 1",
        'status > "oh"',
    ],
)
def test_a_condition_holds(text: str) -> None:
    assert parse_condition(text).problem(DOCUMENT) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nothing", "there is no nothing"),
        ("data[1].id", "there is no data[1]"),
        ("data.id", "there is no data.id"),
        ("status.x", "there is no status.x"),
        ("status[0]", "there is no status[0]"),
        ("empty", "it is []"),
        ("none", "it is null"),
        ("true == 1", "it is true"),
        ('workers == "2"', "it is 2"),
        ('workers > "1"', "it is 2"),
        ("true > 0", "it is true"),
        ('["a b"].c-d == [1, [1]]', "it is [1, [true]]"),
    ],
)
def test_what_does_not_hold_is_told_with_what_stands_there(text: str, told: str) -> None:
    assert parse_condition(text).problem(DOCUMENT) == told


def test_the_document_itself_may_be_a_list() -> None:
    assert parse_condition("[0].id").problem([{"id": 1}]) is None
    assert parse_condition("[0].id").problem("text") == "there is no [0]"


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", ".a", "a.", "a..b", "a[", "a[x]", "a ==", "== 1", "a = 1", "a == b", "a b"],
)
def test_what_is_no_condition_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="json ="):
        parse_condition(text)


@given(st.text())
def test_any_text_is_a_condition_or_a_value_error(text: str) -> None:
    try:
        condition = parse_condition(text)
    except ValueError:
        return
    condition.problem(DOCUMENT)

# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.report.excerpts import around, differing_part, parts_of, whole_text

CALL = {"name": "f", "arguments": '{"a": 1}'}


def test_the_parts_of_an_answer_in_the_order_of_reading() -> None:
    choice = {"message": {"content": "said", "reasoning": "why", "tool_calls": [CALL]}}

    assert parts_of(choice) == {
        "reasoning": "why",
        "content": "said",
        "tool_calls[0].name": "f",
        "tool_calls[0].arguments": '{"a": 1}',
    }
    assert whole_text({"text": "said"}) == "said"


def test_a_part_that_is_no_text_is_shown_as_json() -> None:
    assert parts_of({"message": {"content": ["a", 1]}}) == {"content": '["a", 1]'}


def test_the_first_part_that_differs() -> None:
    left = {"message": {"content": "same", "refusal": "x"}}

    assert differing_part(left, {"message": {"content": "same", "refusal": "y"}}) == "refusal"
    assert differing_part(left, left) == "content"
    assert differing_part({}, {}) == "token_ids"


def test_an_excerpt_is_cut_on_both_sides() -> None:
    excerpt = around("one two three", "one two four", 3)

    assert (excerpt.before, excerpt.left, excerpt.right) == ("wo ", "thr", "fou")


def test_half_a_surrogate_pair_becomes_an_escape() -> None:
    assert around("\ud800a", "\ud800b", 9).before == "\\ud800"

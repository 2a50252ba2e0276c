# SPDX-License-Identifier: Apache-2.0
"""Tokens of answers, and where two answers diverge."""

import json
import math
from typing import Any

import pytest

from ci_doctor.correctness.report.differences import manner, place
from ci_doctor.correctness.report.divergence import (
    differ,
    first_divergence,
    first_field,
    numbers_apart,
)
from ci_doctor.load.answer_items import nearest, packed
from ci_doctor.model.facts.correctness import Hardness, PositionUnit


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), (1, True), (0.0, -0.0), ("a", "b")])
def test_what_python_takes_for_equal_may_have_another_digest(left: object, right: object) -> None:
    assert differ(left, right)
    assert not differ(left, left)


def vectors(*each: list[float]) -> dict[str, Any]:
    items = [{"index": at, "float32": packed(numbers)} for at, numbers in enumerate(each)]
    return {"kind": "vector", "items": items}


def ranks(*each: tuple[int, float]) -> dict[str, Any]:
    return {"kind": "rank", "items": [{"index": at, "numbers": [score]} for at, score in each]}


def labels(*each: tuple[str, list[float]]) -> dict[str, Any]:
    items = [{"index": at, "label": label, "numbers": n} for at, (label, n) in enumerate(each)]
    return {"kind": "label", "items": items}


def test_vectors_are_shown_by_places_angle_and_steps() -> None:
    ours = nearest([math.sin(at) for at in range(1024)])
    theirs = list(ours)
    for moved in (17, 30, 900):
        theirs[moved] = nearest([theirs[moved] + abs(theirs[moved]) * 1e-7])[0]
    at = first_divergence(vectors(ours), vectors(theirs))
    assert place(at) == "vector of 1,024"
    assert manner(at).startswith("differs at 3 places, cosine distance ")
    assert manner(at).endswith(" ULP")
    assert at.hardness is Hardness.NUMBERS
    assert (at.before, at.left) == ("number 17: ", f"{ours[17]:.9g}")
    assert at.apart is not None
    assert at.apart.first == 17
    assert at.ulp == at.apart.ulp
    assert 1 <= at.apart.ulp <= 2


def test_of_several_vectors_the_one_that_differs_is_named() -> None:
    at = first_divergence(vectors([1.0, 2.0], [3.0, 4.0]), vectors([1.0, 2.0], [3.0, 4.5]))
    assert place(at) == "vector 1 (of 2 numbers)"
    assert at.choice == 1


def test_a_number_alone_has_no_angle() -> None:
    one, other = {"index": 0, "numbers": [0.5]}, {"index": 0, "numbers": [0.25]}
    at = first_divergence({"kind": "score", "items": [one]}, {"kind": "score", "items": [other]})
    assert place(at) == "score"
    assert manner(at) == "differs by 0.25, 8,388,608 ULP"


@pytest.mark.parametrize(
    ("left", "right", "cosine"),
    [
        ([1.0, 0.0], [0.0, 1.0], 1.0),
        ([1.0, 0.0], [-1.0, 0.0], 2.0),
        ([1.0, 2.0], [2.0, 4.0], 0.0),
        ([0.0, 0.0], [0.0, 1.0], None),
    ],
)
def test_the_cosine_distance(left: list[float], right: list[float], cosine: float | None) -> None:
    apart = numbers_apart(left, right)
    assert apart is not None
    assert apart.cosine == (cosine if cosine is None else pytest.approx(cosine))


def test_a_small_angle_keeps_its_digits() -> None:
    apart = numbers_apart([1.0, 0.0], [1.0, 1e-12])
    assert apart is not None
    assert apart.cosine == pytest.approx(5e-25, abs=0)


def test_equal_numbers_are_not_apart_and_another_sign_of_zero_is() -> None:
    assert numbers_apart([1.0, 0.0], [1.0, 0.0]) is None
    apart = numbers_apart([1.0, 0.0], [1.0, -0.0])
    assert apart is not None
    assert (apart.places, apart.ulp) == (1, 0)


def test_vectors_of_two_lengths_are_no_distance_apart() -> None:
    at = first_divergence(vectors([1.0, 2.0]), vectors([1.0]))
    assert (at.hardness, at.left, at.right) == (Hardness.LENGTH, "2 numbers", "1 numbers")
    assert at.apart is None


def test_another_label_is_shown_before_its_numbers() -> None:
    at = first_divergence(labels(("a", [0.6, 0.4])), labels(("b", [0.4, 0.6])))
    assert (at.field, at.left, at.right) == ("label", "a (0.6 0.4)", "b (0.4 0.6)")


def test_another_order_is_shown_by_the_first_document_that_differs() -> None:
    at = first_divergence(ranks((2, 0.9), (0, 0.5)), ranks((2, 0.9), (1, 0.5)))
    assert (at.field, at.left, at.right) == ("rank 1", "0 (0.5)", "1 (0.5)")


def test_an_item_that_only_one_side_has_is_missing() -> None:
    at = first_divergence(ranks((2, 0.9)), ranks((2, 0.9), (1, 0.5)))
    assert (at.field, at.hardness) == ("items[1]", Hardness.MISSING)


def test_a_vector_and_a_text_are_two_fields() -> None:
    at = first_divergence(vectors([1.0]), {"choices": [{"index": 0, "text": "a"}]})
    assert at.hardness is Hardness.MISSING


def completion(text: str = "said", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, **fields}], "completion_tokens": 3}


def legacy(*steps: tuple[str, dict[str, float]], **fields: Any) -> dict[str, Any]:
    """A completion of these tokens, each with its most probable ones; the token itself is among them."""
    logprobs = {
        "tokens": [token for token, _ in steps],
        "token_logprobs": [top.get(token) for token, top in steps],
        "top_logprobs": [top for _, top in steps],
    }
    return completion("".join(token for token, _ in steps), logprobs=logprobs, **fields)


def chat(*steps: tuple[str, dict[str, float]], **message: Any) -> dict[str, Any]:
    """The same as a chat's answer."""
    content = [
        {
            "token": token,
            "logprob": top[token],
            "bytes": list(token.encode()),
            "top_logprobs": [
                {"token": each, "logprob": told, "bytes": list(each.encode())}
                for each, told in top.items()
            ],
        }
        for token, top in steps
    ]
    said = {"role": "assistant", "content": "".join(token for token, _ in steps), **message}
    return {"choices": [{"index": 0, "message": said, "logprobs": {"content": content}}]}


A: tuple[str, dict[str, float]] = ("a", {"a": -0.25, "z": -3.0})


@pytest.mark.parametrize("form", [legacy, chat])
@pytest.mark.parametrize(
    ("left", "right", "hardness", "gap"),
    [
        ({"x": -0.70, "y": -0.75}, {"y": -0.71, "x": -0.72}, Hardness.NEAR_TIE, 0.05),
        ({"x": -0.70, "y": -0.85}, {"y": -0.71, "x": -0.72}, Hardness.HARD, 0.15),
        ({"x": -0.70, "y": -0.72}, {"y": -0.10, "x": -3.00}, Hardness.HARD, 2.9),
        (
            {"x": -0.70, "w": -0.72},
            {"y": -0.71, "x": -0.72},
            Hardness.HARD,
            0.02,
        ),  # outside: at least so far
        (
            {"x": -0.70},
            {"y": -0.71},
            Hardness.UNKNOWN,
            None,
        ),  # nothing but the token itself is told
        ({"x": -0.70}, {"y": -0.71, "x": -0.72}, Hardness.UNKNOWN, None),
        ({"x": -0.70}, {"y": -0.10, "x": -3.00}, Hardness.HARD, 2.9),
    ],
)
def test_rounding_can_flip_a_near_tie_only(
    form: Any,
    left: dict[str, float],
    right: dict[str, float],
    hardness: Hardness,
    gap: float | None,
) -> None:
    found = first_divergence(form(A, ("x", left)), form(A, ("y", right)))

    assert (found.unit, found.position, found.hardness) == (PositionUnit.TOKEN, 1, hardness)
    assert found.gap == (None if gap is None else pytest.approx(gap))
    assert (found.before, found.left, found.right) == ("a", "x", "y")


@pytest.mark.parametrize("form", [legacy, chat])
def test_an_answer_that_goes_on_differs_in_length(form: Any) -> None:
    found = first_divergence(form(A), form(A, ("b", {"b": -0.1})))

    assert (found.unit, found.position, found.hardness) == (PositionUnit.TOKEN, 1, Hardness.LENGTH)
    assert (found.left, found.right) == ("", "b")


def test_token_ids_tell_what_text_hides() -> None:
    found = first_divergence(completion("ab", token_ids=[1, 2]), completion("ab", token_ids=[1, 3]))

    assert (found.unit, found.position, found.hardness) == (PositionUnit.TOKEN, 1, Hardness.UNKNOWN)
    assert (found.left, found.right) == ("token 2", "token 3")


def test_ids_and_log_probabilities_that_are_not_as_many_are_not_put_together() -> None:
    near = {"x": -0.7, "y": -0.7}
    found = first_divergence(
        legacy(("x", near), token_ids=[7, 1]), legacy(("y", near), token_ids=[7, 2])
    )

    assert (found.position, found.hardness) == (1, Hardness.UNKNOWN)


def test_two_tokens_below_one_text_are_not_called_a_near_tie() -> None:
    half = ("\ufffd", {"\ufffd": -0.1, "z": -3.0})
    found = first_divergence(legacy(half, token_ids=[1]), legacy(half, token_ids=[2]))

    assert found.hardness is Hardness.UNKNOWN


@pytest.mark.parametrize("moved", [-0.25 - 2.0**-25, -0.5])
@pytest.mark.parametrize("form", [legacy, chat])
def test_numbers_alone_can_differ(form: Any, moved: float) -> None:
    found = first_divergence(form(A, A, A), form(A, ("a", {"a": moved, "z": -3.0}), A))

    assert (found.field, found.unit, found.position, found.hardness) == (
        "logprobs",
        PositionUnit.TOKEN,
        1,
        Hardness.NUMBERS,
    )
    assert (found.before, found.left, found.right) == ("a", "a", "a")


def test_without_tokens_characters_are_counted() -> None:
    found = first_divergence(completion("one two three"), completion("one two four"), width=5)

    assert (found.field, found.unit, found.position) == ("text", PositionUnit.CHARACTER, 8)
    assert (found.before, found.left, found.right) == (" two ", "three", "four")
    assert found.hardness is Hardness.UNKNOWN


def test_a_text_that_is_the_beginning_of_the_other_differs_in_length() -> None:
    found = first_divergence(completion("one"), completion("one two"))

    assert (found.position, found.left, found.right, found.hardness) == (
        3,
        "",
        " two",
        Hardness.LENGTH,
    )


def message(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": fields}]}


@pytest.mark.parametrize(
    ("left", "right", "field", "position"),
    [
        (message(content="same", reasoning_content="x"), message(content="same", reasoning_content="y"), "reasoning_content", 0),
        (message(content="ax"), message(content="ay"), "content", 1),
        (
            message(tool_calls=[{"name": "f", "arguments": '{"a": 1}'}]),
            message(tool_calls=[{"name": "f", "arguments": '{"a": 2}'}]),
            "tool_calls[0].arguments",
            6,
        ),
        (message(content="text"), message(tool_calls=[{"name": "f", "arguments": "{}"}]), "content", 0),
    ],
)  # fmt: skip
def test_the_part_that_differs_is_named(
    left: dict[str, Any], right: dict[str, Any], field: str, position: int
) -> None:
    found = first_divergence(left, right)

    assert (found.field, found.position) == (field, position)


def test_of_several_choices_the_first_that_differs_counts() -> None:
    def choices(*texts: str) -> dict[str, Any]:
        return {"choices": [{"index": index, "text": text} for index, text in enumerate(texts)]}

    found = first_divergence(choices("a", "bx", "c"), choices("a", "by", "d"))
    assert (found.choice, found.position) == (1, 1)
    assert first_divergence(choices("a"), choices("a", "b")).hardness is Hardness.MISSING


@pytest.mark.parametrize(
    ("left", "right", "field", "hardness", "position"),
    [
        (completion(finish_reason="stop"), completion(finish_reason="length"), "choices[0].finish_reason", Hardness.LENGTH, 4),
        (completion(stop_reason="A", token_ids=[1, 2]), completion(stop_reason="B", token_ids=[1, 2]), "choices[0].stop_reason", Hardness.LENGTH, 2),
        ({**completion(), "completion_tokens": 4}, completion(), "completion_tokens", Hardness.LENGTH, None),
        (completion(logprobs=[1, 2]), completion(logprobs=[1, 3]), "choices[0].logprobs[1]", Hardness.UNKNOWN, None),
        (completion(logprobs=[1, 2]), completion(logprobs=[1]), "len(choices[0].logprobs)", Hardness.UNKNOWN, None),
        (completion(logprobs=[0.0]), completion(logprobs=[-0.0]), "choices[0].logprobs[0]", Hardness.UNKNOWN, None),
        (completion(logprobs=[1, 1]), completion(logprobs=[1, 1.0]), "choices[0].logprobs[1]", Hardness.UNKNOWN, None),
        (completion(), {**completion(), "prompt_logprobs": [None]}, "prompt_logprobs", Hardness.UNKNOWN, None),
    ],
)  # fmt: skip
def test_where_texts_agree_the_field_is_named(
    left: dict[str, Any],
    right: dict[str, Any],
    field: str,
    hardness: Hardness,
    position: int | None,
) -> None:
    found = first_divergence(left, right)

    assert (found.field, found.hardness, found.position) == (field, hardness, position)


EVIL: list[Any] = [
    {"content": [None, 3, {"token": None, "logprob": "x", "top_logprobs": [1, {"logprob": True}]}]},
    {"content": [{"token": "a", "logprob": 10**400, "bytes": ["x"], "top_logprobs": {"a": 1}}]},
    {"tokens": ["a", 3], "token_logprobs": "no", "top_logprobs": [None, {"b": "c"}]},
    {"tokens": {"a": 1}},
    [[[[]]]],
    7,
]


@pytest.mark.parametrize("left", EVIL)
@pytest.mark.parametrize("right", [*EVIL, None])
def test_no_form_of_log_probabilities_breaks_it(left: Any, right: Any) -> None:
    for texts in (("ax", "ay"), ("a", "a")):
        one = completion(texts[0], logprobs=left, token_ids="no")
        other = completion(texts[1], logprobs=right, token_ids=[1])
        first_divergence(one, other)
        first_divergence(other, one)
        first_divergence(
            message(content=["a", 1], tool_calls=[{"name": None, "arguments": 3}]), one
        )


def test_what_is_shown_can_be_written_to_a_file() -> None:
    found = first_divergence(completion("\ud800a"), completion("\ud800b"))

    assert found.before.encode("utf-8") == rb"\ud800"


def test_a_value_as_deep_as_json_goes_is_searched_and_shown() -> None:
    def deep(bottom: int) -> Any:
        return json.loads("[" * 400 + str(bottom) + "]" * 400)

    found = first_divergence(completion(audio=deep(1)), completion(audio=deep(2)))

    assert found.field.endswith("[0]" * 400)
    assert (found.left[0], found.right[0]) == ("1", "2")


def test_ten_megabytes_are_searched_at_once() -> None:
    left, right = "x" * 10_000_000 + "a", "x" * 10_000_000 + "b"

    assert first_divergence(completion(left), completion(right)).position == 10_000_000


@pytest.mark.parametrize(
    ("left", "right", "position"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ("a.b", 1, 2)),
        ({"a": [1, 2]}, {"a": [1, 3]}, ("a[1]", 2, 3)),
        ({"a": [1]}, {"a": [1, 3]}, ("len(a)", 1, 2)),
        ({"a": 1}, {}, ("a", 1, None)),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, ("a", 1, 2)),
        (1, 2, ("output", 1, 2)),
    ],
)
def test_the_first_difference_has_a_path(left: Any, right: Any, position: Any) -> None:
    assert first_field(left, right) == position

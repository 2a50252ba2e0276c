# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import pytest

from ci_doctor.correctness.report.alignment import manner, place
from ci_doctor.correctness.report.divergence import first_divergence
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.item_difference import numbers_apart
from ci_doctor.load.answer_items import packed
from ci_doctor.load.choices import nearest


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
    assert apart.cosine == pytest.approx(5e-25)


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

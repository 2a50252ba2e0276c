# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.correctness.report.fields import differ, first_field


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


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), (1, True), (0.0, -0.0), ("a", "b")])
def test_what_python_takes_for_equal_may_have_another_digest(left: object, right: object) -> None:
    assert differ(left, right)
    assert not differ(left, left)

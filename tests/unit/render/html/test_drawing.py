# SPDX-License-Identifier: Apache-2.0
"""What the page of a correctness report draws of its facts."""

import pytest

from ci_doctor.render.html.report_page import drawn


@pytest.mark.parametrize(
    ("gate", "same"),
    [
        ({"level": "words"}, "in words"),
        ({"level": "tokens"}, "in words and tokens"),
        ({"level": "numbers"}, "byte for byte"),
        (
            {"level": "numbers", "limit": "0.0001 nat"},
            "in words and tokens, and within 0.0001 nat in numbers",
        ),
    ],
)
def test_the_page_says_in_what_the_gate_holds_two_answers_for_the_same(
    gate: dict[str, str], same: str
) -> None:
    parts = drawn({"levels": [{"level": "tokens"}, {**gate, "gate": True}]})

    assert parts.same == same
    assert parts.is_exact == (same == "byte for byte")


def test_a_report_without_levels_compared_everything() -> None:
    assert drawn({}).same == "byte for byte"

# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.load import strict_json


def test_a_json_text_is_its_value() -> None:
    assert strict_json.parse('{"a": [1, 2.5, null], "b": "\\ud800"}') == {
        "a": [1, 2.5, None],
        "b": "\ud800",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        (b"\xff", "decode"),
        ("NaN", "NaN is no JSON number"),
        ("[-Infinity]", "-Infinity is no JSON number"),
        ('{"a": 1, "b": 2, "a": 1}', 'the key "a" stands twice'),
        ('[{"x": {"b": 1, "b": 1, "b": 1}}]', 'the key "b" stands twice'),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_two_readers_may_take_in_different_ways_is_refused(
    text: str | bytes, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        strict_json.parse(text)

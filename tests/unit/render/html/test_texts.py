# SPDX-License-Identifier: Apache-2.0
from ci_doctor.render.html.texts import clipped, day, prose, value


def test_words_for_a_page() -> None:
    assert [(piece.text, piece.code) for piece in prose("set `A=1` and `B`")] == [
        ("set ", False), ("A=1", True), (" and ", False), ("B", True),
    ]  # fmt: skip
    assert [piece.text for piece in prose("an odd ` one")] == ["an odd ` one"]
    assert day("2026-11-03T09:30:00.000Z") == "2026-11-03 09:30:00 UTC"
    assert day("yesterday") == "yesterday"
    assert clipped("abc", 3) == "abc"
    assert clipped("abcd", 3) == "abc… (1 more characters)"
    assert [value(found) for found in (None, "x", 3, True, {"b": 1, "a": [2]})] == [
        "unknown",
        "x",
        "3",
        "true",
        '{"a": [2], "b": 1}',
    ]

# SPDX-License-Identifier: Apache-2.0
"""What a page shows of two texts."""

from hypothesis import given

from ci_doctor.model.facts.correctness import AlignedAnswers, Hardness, NumbersApart
from ci_doctor.render.html.report_page import (
    MEANINGS,
    differing,
    look_alike,
    loose_spaces,
    pair,
    runs,
    segment_runs,
)
from ci_doctor.render.html.templating import clipped, day, value, words
from tests.unit.render.strategies import TEXT


def test_what_cannot_be_seen_becomes_a_mark() -> None:
    found = list(runs("a\u200b\x00\n\t\u00a0\ud800\u202eb", ()))

    assert [(mark, text) for text, mark, _ in found] == [
        ("", "a"), ("cp", "U+200B"), ("cp", "U+0000"), ("nl", "\n"), ("tab", "\t"), ("cp", "U+00A0"),
        ("cp", "U+D800"), ("cp", "U+202E"), ("", "b"),
    ]  # fmt: skip
    assert found[1][2] == "zero width space"


@given(TEXT)
def test_runs_lose_nothing(text: str) -> None:
    shown = [
        chr(int(part.removeprefix("U+"), 16)) if mark == "cp" else part
        for part, mark, _ in runs(text, range(99))
    ]
    assert "".join(shown) == text


def test_only_spaces_that_are_easily_overlooked_are_marked() -> None:
    assert loose_spaces(" a b  c \nd") == {0, 4, 5, 7}


def test_a_space_between_two_segments_is_not_at_the_end_of_a_line() -> None:
    left, _ = differing("one two three", "one 2 three")

    assert [(differs, [text for text, _, _ in found]) for differs, found in segment_runs(left)] == [
        (False, ["one "]), (True, ["two"]), (False, [" three"]),
    ]  # fmt: skip


@given(TEXT, TEXT)
def test_segments_make_up_both_sides_and_what_does_not_differ_is_the_same(
    left: str, right: str
) -> None:
    ours, theirs = differing(left, right)

    assert "".join(text for text, _ in ours) == left
    assert "".join(text for text, _ in theirs) == right
    assert [text for text, differs in ours if not differs] == [
        text for text, differs in theirs if not differs
    ]


def test_texts_that_look_the_same_are_told_from_those_that_are() -> None:
    assert look_alike("caf\u00e9", "cafe\u0301")
    assert not look_alike("cat", "cat")
    assert not look_alike("cat", "dog")


def test_the_page_says_how_far_two_vectors_lie_apart() -> None:
    apart = NumbersApart(count=1024, places=3, first=7, largest=1e-7, ulp=1200, cosine=2e-7)
    about = AlignedAnswers(
        request="r", field="vector of 1,024", hardness=Hardness.NUMBERS, apart=apart
    )
    assert pair(about)["meaning"] == "differs at 3 places, cosine distance 2e-07, largest 1,200 ULP"


def test_other_numbers_are_explained_by_their_kind() -> None:
    about = AlignedAnswers(request="r", field="logprobs", hardness=Hardness.NUMBERS)
    assert pair(about)["meaning"] == MEANINGS["numbers"]


def test_one_place_and_one_number_are_in_the_singular() -> None:
    one = NumbersApart(count=9, places=1, first=7, largest=1e-7, ulp=1, cosine=None)
    assert one.words == "differs at 1 place, largest 1 ULP"
    score = NumbersApart(count=1, places=1, first=0, largest=0.25, ulp=9)
    assert score.words == "differs by 0.25, 9 ULP"


def test_words_for_a_page() -> None:
    assert words("set `A=1` and `<B>`") == "set <code>A=1</code> and <code>&lt;B&gt;</code>"
    assert words("an odd ` one") == "an odd ` one"
    assert day("2026-11-03T09:30:00.000Z") == "2026-11-03 09:30:00 UTC"
    assert day("yesterday") == "yesterday"
    assert clipped("abc", 3) == "abc"
    assert clipped("abcd", 3) == "abc… (1 more characters)"
    values = [value(found) for found in (None, "x", 3, True, {"b": 1, "a": [2]})]
    assert values == ["unknown", "x", "3", "true", '{"a": [2], "b": 1}']

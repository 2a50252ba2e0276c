# SPDX-License-Identifier: Apache-2.0
"""What a page shows of two texts."""

from hypothesis import given

from ci_doctor.render.html.pairs import (
    VisibleRun,
    differing,
    look_alike,
    loose_spaces,
    runs,
    segment_runs,
)
from tests.unit.render.strategies import TEXT, patient


def test_what_cannot_be_seen_becomes_a_mark() -> None:
    found = list(runs("a\u200b\x00\n\t\u00a0\ud800\u202eb", ()))

    assert [(run.mark, run.text) for run in found] == [
        ("", "a"), ("cp", "U+200B"), ("cp", "U+0000"), ("nl", "\n"), ("tab", "\t"), ("cp", "U+00A0"),
        ("cp", "U+D800"), ("cp", "U+202E"), ("", "b"),
    ]  # fmt: skip
    assert found[1].title == "zero width space"


@given(TEXT)
@patient
def test_runs_lose_nothing(text: str) -> None:
    assert (
        "".join(_character(run) if run.mark == "cp" else run.text for run in runs(text, range(99)))
        == text
    )


def _character(run: VisibleRun) -> str:
    return chr(int(run.text.replace("U+", "0x"), 0))


def test_only_spaces_that_are_easily_overlooked_are_marked() -> None:
    assert loose_spaces(" a b  c \nd") == {0, 4, 5, 7}


def test_a_space_between_two_segments_is_not_at_the_end_of_a_line() -> None:
    left, _ = differing("one two three", "one 2 three")

    assert [(differs, [run.text for run in found]) for differs, found in segment_runs(left)] == [
        (False, ["one "]), (True, ["two"]), (False, [" three"]),
    ]  # fmt: skip


@given(TEXT, TEXT)
@patient
def test_segments_make_up_both_sides_and_what_does_not_differ_is_the_same(
    left: str, right: str
) -> None:
    ours, theirs = differing(left, right)

    assert "".join(segment.text for segment in ours) == left
    assert "".join(segment.text for segment in theirs) == right
    assert [each.text for each in ours if not each.differs] == [
        each.text for each in theirs if not each.differs
    ]


def test_texts_that_look_the_same_are_told_from_those_that_are() -> None:
    assert look_alike("caf\u00e9", "cafe\u0301")
    assert not look_alike("cat", "cat")
    assert not look_alike("cat", "dog")

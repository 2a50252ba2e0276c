# SPDX-License-Identifier: Apache-2.0
"""What a page draws of a matrix."""

import pytest
from msgspec import convert

from ci_doctor.model.facts.correctness import AnswerMatrix
from ci_doctor.render.html.matrix import MatrixView, view
from tests.support.pictures import Classes, matrix


def _view(
    starts: list[str], requests: dict[str, tuple[str, Classes]], disputed: tuple[str, ...] = ()
) -> MatrixView:
    seen = view(convert(matrix(starts, requests), AnswerMatrix), disputed)
    assert seen is not None
    return seen


def test_baseline_starts_stand_before_candidate_starts_and_archived_ones_first() -> None:
    seen = _view(["A1", "B1", "a1", "A2", "B2"], {"r0": ("own", [0, 1, 2, 3, 4])})

    assert [column.name for column in seen.columns] == ["a1", "A1", "A2", "B1", "B2"]
    assert [cell.text for cell in seen.groups[0].rows[0].cells] == ["3", "1", "4", "2", "5"]
    assert seen.baseline == 3


def test_disputed_requests_come_first_then_the_kinds_from_the_worst_and_equal_ones_last() -> None:
    rows: dict[str, tuple[str, Classes]] = {
        "e": ("equal", [0, 0]),
        "f": ("flaky", [0, 1]),
        "u": ("unanswered", [None, None]),
        "s": ("sometimes", [0, 1]),
        "o": ("own", [0, 1]),
        "c": ("changed", [0, 1]),
        "d": ("changed", [0, 1]),
    }
    seen = _view(["A1", "B1"], rows, ("d",))

    assert [row.id for group in seen.groups for row in group.rows] == ["d", "c", "o", "s", "f", "u"]
    assert (seen.equal, seen.differing, seen.total) == (("e",), 6, 7)
    assert (
        seen.kinds
        == "1 disputed, 1 changed, 1 own, 1 sometimes, 1 flaky, 1 unanswered, 1 the same in every start"
    )


def test_requests_that_vary_together_stand_together() -> None:
    rows: dict[str, tuple[str, Classes]] = {
        f"r{n}": ("flaky", [0, n % 2, 1 - n % 2]) for n in range(6)
    }

    assert [row.id for row in _view(["A1", "A2", "B1"], rows).groups[0].rows] == [
        "r0",
        "r2",
        "r4",
        "r1",
        "r3",
        "r5",
    ]


def test_an_equal_request_with_an_answer_that_does_not_count_keeps_its_own_row() -> None:
    rows: dict[str, tuple[str, Classes]] = {
        "r0": ("equal", [0, 1]),
        "r1": ("equal", [0, None]),
        "r2": ("equal", [0, 0]),
    }
    seen = _view(["a1", "A1"], rows)

    assert [row.id for row in seen.groups[0].rows] == ["r1", "r0"]
    assert seen.equal == ("r2",)


def test_no_answer_is_no_colour_of_an_answer_and_later_answers_share_colours_but_no_number() -> (
    None
):
    cells = (
        _view([f"A{n}" for n in range(1, 11)], {"r": ("flaky", [None, *range(9)])})
        .groups[0]
        .rows[0]
        .cells
    )

    assert [cell.style for cell in cells] == [
        "none",
        "c0",
        "c1",
        "c2",
        "c3",
        "c4",
        "c5",
        "c6",
        "c7",
        "c1",
    ]
    assert [cell.text for cell in cells] == ["–", "1", "2", "3", "4", "5", "6", "7", "8", "9"]


def test_missing_entries_of_a_row_are_no_answers() -> None:
    assert [
        cell.text for cell in _view(["A1", "B1"], {"r": ("own", [0, 0])}).groups[0].rows[0].cells
    ] == ["1", "1"]
    short = convert(
        {
            "starts": [{"name": "A1"}, {"name": "A2"}],
            "requests": [{"id": "r", "kind": "equal", "classes": [0]}],
        },
        AnswerMatrix,
    )
    seen = view(short)
    assert seen is not None
    assert [cell.text for cell in seen.groups[0].rows[0].cells] == ["1", "–"]


@pytest.mark.parametrize("empty", [{}, {"starts": [{"name": "A1"}]}, {"requests": [{"id": "r"}]}])
def test_a_matrix_without_starts_or_requests_is_not_drawn(empty: dict[str, object]) -> None:
    assert view(convert(empty, AnswerMatrix)) is None


def test_a_strip_covers_every_request_once_and_joins_neighbours_of_one_colour() -> None:
    rows: dict[str, tuple[str, Classes]] = {f"r{n}": ("flaky", [0, 1]) for n in range(3)}
    rows |= {f"e{n}": ("equal", [0, 0]) for n in range(5)}
    first, second = _view(["A1", "B1"], rows).strips

    assert first.paths == (("c0", "M0 0h8v10h-8z"),)
    assert second.paths == (("c0", "M3 0h5v10h-5z"), ("c1", "M0 0h3v10h-3z"))

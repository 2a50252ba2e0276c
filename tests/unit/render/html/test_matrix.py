# SPDX-License-Identifier: Apache-2.0
"""What a page draws of first differences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from ci_doctor.model.facts.correctness import AnswerMatrix, DivergencePositions
from ci_doctor.render.html.report_page import histogram, view_of
from ci_doctor.render.html.templating import Shown
from tests.support.pictures import Classes, matrix


def _view(
    starts: list[str], requests: dict[str, tuple[str, Classes]], disputed: tuple[str, ...] = ()
) -> Shown:
    seen = view_of(convert(matrix(starts, requests), AnswerMatrix), disputed)
    assert seen is not None
    return seen


def _texts(seen: Shown) -> list[str]:
    """What stands in the cells of the first row."""
    return [cell["text"] for cell in seen["groups"][0]["rows"][0]["cells"]]


def test_baseline_starts_stand_before_candidate_starts_and_archived_ones_first() -> None:
    seen = _view(["A1", "B1", "a1", "A2", "B2"], {"r0": ("own", [0, 1, 2, 3, 4])})

    assert [column.name for column in seen["columns"]] == ["a1", "A1", "A2", "B1", "B2"]
    assert _texts(seen) == ["3", "1", "4", "2", "5"]
    assert seen["baseline"] == 3


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

    order = [row["id"] for group in seen["groups"] for row in group["rows"]]
    assert order == ["d", "c", "o", "s", "f", "u"]
    assert (seen["equal"], seen["differing"], seen["total"]) == (["e"], 6, 7)
    assert (
        seen["kinds"]
        == "1 disputed, 1 changed, 1 own, 1 sometimes, 1 flaky, 1 unanswered, 1 the same in every start"
    )


def test_requests_that_vary_together_stand_together() -> None:
    rows: dict[str, tuple[str, Classes]] = {
        f"r{n}": ("flaky", [0, n % 2, 1 - n % 2]) for n in range(6)
    }
    seen = _view(["A1", "A2", "B1"], rows)

    order = [row["id"] for row in seen["groups"][0]["rows"]]
    assert order == ["r0", "r2", "r4", "r1", "r3", "r5"]


def test_an_equal_request_with_an_answer_that_does_not_count_keeps_its_own_row() -> None:
    rows: dict[str, tuple[str, Classes]] = {
        "r0": ("equal", [0, 1]),
        "r1": ("equal", [0, None]),
        "r2": ("equal", [0, 0]),
    }
    seen = _view(["a1", "A1"], rows)

    assert [row["id"] for row in seen["groups"][0]["rows"]] == ["r1", "r0"]
    assert seen["equal"] == ["r2"]


def test_no_answer_is_no_colour_of_an_answer_and_later_answers_share_colours_but_no_number() -> (
    None
):
    seen = _view([f"A{n}" for n in range(1, 11)], {"r": ("flaky", [None, *range(9)])})

    styles = [cell["style"] for cell in seen["groups"][0]["rows"][0]["cells"]]
    assert styles == ["none", *(f"c{number}" for number in range(8)), "c1"]
    assert _texts(seen) == ["–", *map(str, range(1, 10))]


def test_missing_entries_of_a_row_are_no_answers() -> None:
    assert _texts(_view(["A1", "B1"], {"r": ("own", [0, 0])})) == ["1", "1"]
    short = {**matrix(["A1", "A2"], {}), "requests": [{"id": "r", "kind": "equal", "classes": [0]}]}
    seen = view_of(convert(short, AnswerMatrix))
    assert seen is not None
    assert _texts(seen) == ["1", "–"]


@pytest.mark.parametrize("empty", [{}, {"starts": [{"name": "A1"}]}, {"requests": [{"id": "r"}]}])
def test_a_matrix_without_starts_or_requests_is_not_drawn(empty: dict[str, object]) -> None:
    assert view_of(convert(empty, AnswerMatrix)) is None


def test_a_strip_covers_every_request_once_and_joins_neighbours_of_one_colour() -> None:
    rows: dict[str, tuple[str, Classes]] = {f"r{n}": ("flaky", [0, 1]) for n in range(3)}
    rows |= {f"e{n}": ("equal", [0, 0]) for n in range(5)}
    first, second = _view(["A1", "B1"], rows)["strips"]

    assert first["paths"] == [("c0", "M0 0h8v10h-8z")]
    assert second["paths"] == [("c0", "M3 0h5v10h-5z"), ("c1", "M0 0h3v10h-3z")]


def _histogram(*positions: float | None, unit: str = "token") -> Shown:
    drawn = histogram(DivergencePositions(positions=positions, unit=unit))
    assert drawn is not None
    return drawn


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
def test_every_position_is_in_one_bar_and_everything_lies_inside_the_picture(
    positions: list[int],
) -> None:
    drawn = _histogram(*positions)

    for bar in drawn["bars"]:
        assert bar["count"] == sum(
            bar["first"] <= position <= bar["last"] for position in positions
        )
        assert 0 <= bar["x"] < bar["x"] + bar["width"] <= 100.01
        assert 0 < bar["height"] <= 100
    assert sum(bar["count"] for bar in drawn["bars"]) == drawn["count"] == len(positions)
    assert 0 <= drawn["median_at"] <= 100
    assert 1 <= len(drawn["across"]) <= 6
    assert all(0 <= tick["at"] <= 100 for tick in (*drawn["across"], *drawn["up"]))


def test_median_least_and_most_are_those_of_the_positions_that_are_known() -> None:
    drawn = _histogram(4, None, 37, 212, 38, unit="character")

    assert (drawn["least"], drawn["median"], drawn["most"]) == ("4", "37", "212")
    assert (drawn["unit"], drawn["count"]) == ("character", 4)


def test_bins_have_round_widths() -> None:
    assert {bar["last"] - bar["first"] + 1 for bar in _histogram(0, 212)["bars"]} == {10}
    assert {bar["last"] - bar["first"] + 1 for bar in _histogram(3, 5)["bars"]} == {1}


@pytest.mark.parametrize("positions", [(), (None,), (float("inf"),), (-1,)])
def test_without_positions_nothing_is_drawn(positions: tuple[float | None, ...]) -> None:
    assert histogram(DivergencePositions(positions=positions)) is None

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.recorded import RecordedRequest, read_request
from ci_doctor.correctness.report.replay_pair import choose_pair, divergence_of, names_of
from ci_doctor.errors import UsageError
from tests.unit.correctness.report.recorded_runs import answer, line, write_run

X = answer("a", "x")
Y = answer("a", "y")


def recorded(directory: Path, *lines: str) -> RecordedRequest:
    return read_request(write_run(directory / "run", *lines), "r0")


def test_the_most_telling_pair_is_chosen(tmp_path: Path) -> None:
    request = recorded(tmp_path, line("A1", "r0", X), line("A2", "r0", X), line("B1", "r0", Y))
    pair = choose_pair(request)

    assert pair is not None
    assert names_of(pair) == ("A1", "B1")
    assert divergence_of(request, pair, 40).hardness is Hardness.NEAR_TIE


def test_named_starts_are_shown_even_if_they_agree(tmp_path: Path) -> None:
    request = recorded(tmp_path, line("A1", "r0", X), line("A2", "r0", X), line("B1", "r0", Y))
    pair = choose_pair(request, ("A1", "A2"))

    assert pair is not None
    assert pair.left == pair.right


def test_one_start_shows_its_first_pass_that_differs(tmp_path: Path) -> None:
    lines = [line("A1", "r0", each, number) for number, each in enumerate((X, X, Y), start=1)]
    request = recorded(tmp_path, *lines)

    for names in ((), ("A1",)):
        pair = choose_pair(request, names)
        assert pair is not None
        assert names_of(pair) == ("A1 pass 1", "A1 pass 3")


def test_nothing_is_chosen_if_all_answers_are_the_same(tmp_path: Path) -> None:
    assert choose_pair(recorded(tmp_path, line("A1", "r0", X), line("B1", "r0", X))) is None


def test_a_missing_answer_diverges_as_missing(tmp_path: Path) -> None:
    request = recorded(tmp_path, line("A1", "r0", X), line("B1", "r0", None))
    pair = choose_pair(request)

    assert pair is not None
    assert divergence_of(request, pair, 40).hardness is Hardness.MISSING


@pytest.mark.parametrize(
    ("name", "hint"), [("B2", "known names: A1, B1"), ("a1", "archived starts are not in")]
)
def test_an_unknown_start_is_an_error_of_usage(tmp_path: Path, name: str, hint: str) -> None:
    request = recorded(tmp_path, line("A1", "r0", X), line("B1", "r0", X))

    with pytest.raises(UsageError) as raised:
        choose_pair(request, (name,))

    assert hint in str(raised.value.hint)

# SPDX-License-Identifier: Apache-2.0
"""Figures and places in words."""

import pytest

from ci_doctor.model.outcome import Evidence, row, seconds, share
from ci_doctor.model.outcome import size as size_cell
from ci_doctor.render.formatting import (
    amount,
    duration,
    figure,
    number,
    part_of,
    percent,
    place,
    probability,
    size,
    whole_percent_up,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (0.0001, "< 1 ms"),
        (0.04, "40 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.1 s"),
        (7.31, "7.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (192.4, "3 min 12 s"),
        (3599.7, "1 h 00 min"),
        (90061, "25 h 01 min"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (340_123, "340 kB"),
        (999_600, "1.0 MB"),
        (12_345_678, "12.3 MB"),
    ],
)
def test_size(count: int, words: str) -> None:
    assert size(count) == words


def test_amount() -> None:
    amounts = [amount(count, "finding") for count in (0, 1, 2)]
    assert amounts == ["0 findings", "1 finding", "2 findings"]


def test_a_share_has_the_verb_of_its_number() -> None:
    assert part_of(1, 1, "request") == "1 of 1 request is"
    assert part_of(1, 3, "request", past=True) == "1 of 3 requests was"
    assert part_of(2, 3, "request") == "2 of 3 requests are"
    assert part_of(0, 1, "request", past=True) == "0 of 1 request were"


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(excerpt="figure"), None),
        (Evidence(file="a.log"), "a.log"),
        (Evidence(file="a.log", line=3), "a.log:3"),
        (Evidence(file="a.log", line=3, end_line=3), "a.log:3"),
        (Evidence(file="a.log", line=3, end_line=5), "a.log:3-5"),
    ],
)
def test_place(evidence: Evidence, words: str | None) -> None:
    assert place(evidence) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (3, "3"),
        (37.0, "37"),
        (37.5, "37.5"),
        (1.2e9, "1200000000"),
        (1e20, "1e+20"),
        (-0.1234567, "-0.123457"),
        (float("inf"), "inf"),
    ],
)
def test_number(value: float | None, words: str) -> None:
    assert number(value) == words


def test_shares_and_probabilities_have_three_digits() -> None:
    assert (percent(0.45), percent(0.028571), percent(1)) == ("45 %", "2.86 %", "100 %")
    assert probability(0.028571) == "0.0286"


def test_a_cell_is_formatted_by_its_unit() -> None:
    cells = row("x", seconds(0.04), size_cell(2048), share(0.5), 3, "text", True, None).cells
    assert [figure(cell) for cell in cells] == ["40 ms", "2 kB", "50 %", "3", "text", "yes", "–"]


@pytest.mark.parametrize(("share", "whole"), [(1.8e306, 100), (-1.8e306, 0), (0.855, 86)])
def test_a_bound_of_a_foreign_report_is_a_share_whatever_it_states(
    share: float, whole: int
) -> None:
    assert whole_percent_up(share) == whole

# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/statistics.md are those of the code."""

import re
from math import comb
from pathlib import Path

import pytest

from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.looks import blocks, planned_looks, spent_by
from ci_doctor.correctness.verdict.validity import upper_limit
from ci_doctor.render.formatting import whole_percent_up

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
ROWS = re.findall(r"^\| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
CELLS = [tuple(cell.strip() for cell in row.split("|")) for row in ROWS]
RULES = Rules()


def test_the_blocks_of_the_page_are_those_of_the_default_rules() -> None:
    expected = []
    for number, block in enumerate(blocks(RULES, archived=False), start=1):
        orders = comb(block.size, block.baseline)
        expected.append((str(number), str(block.baseline), str(block.candidate), str(orders)))
    assert [row[:4] for row in CELLS if row[0].isdigit()] == expected


def test_the_looks_of_the_page_are_those_of_the_default_rules() -> None:
    expected = []
    for starts in planned_looks(RULES, archived=False):
        spent = spent_by(RULES.alpha, starts, RULES.max_starts)
        share = starts / RULES.max_starts
        expected.append((f"{starts} starts", f"{share:g}", f"{spent:.4f}"))
    assert [row[:3] for row in CELLS if row[0].endswith(" starts")] == expected


@pytest.mark.parametrize("starts", [1, 3, 6, 8])
def test_the_bounds_of_the_page_are_those_of_the_code(starts: int) -> None:
    row = next(row for row in CELLS if row[0] == f"n = {starts}")
    expected = [f"n = {starts}"]
    for differed in (0, 1):
        bound = upper_limit(differed, starts)
        expected.append("no bound" if bound >= 1 else f"{whole_percent_up(bound)} %")
    assert list(row) == expected

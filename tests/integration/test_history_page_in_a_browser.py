# SPDX-License-Identifier: Apache-2.0
"""The page of a history in a real browser: silent, readable at any width, filtered and ordered."""

from typing import Any

import pytest
from msgspec import to_builtins

from ci_doctor.history.statistics import wilson
from ci_doctor.model.facts.history import ColumnFacts, HistoryReportFacts, StripRow
from ci_doctor.model.outcome import Report
from tests.support.browser import NEEDS_A_BROWSER
from tests.support.builders import a_report

pytestmark = [pytest.mark.integration, pytest.mark.nightly, NEEDS_A_BROWSER]

# Of a name or a figure, what is wider than its column.
WIDER = """all => all.filter((each) => {
  const [own, cell] = [each, each.closest("th, td")].map((one) => one.getBoundingClientRect());
  return own.left < cell.left - 1 || own.right > cell.right + 1;
}).map((each) => each.textContent)"""
NAMES = "all => all.filter((each) => !each.closest('tr').hidden).map((each) => each.textContent)"


def a_row(number: int, failed: int) -> StripRow:
    return StripRow(
        suite="tests.serving.test_with_a_long_module_name.TestPrefixCaching",
        name=f"test_reuse_of_blocks[{number}-fp8-tensor_parallel]",
        passed=100 - failed,
        failed=failed,
        failure_rate=wilson(failed, 100),
        mixed_commits=1,
        cells="0" * 40 + "." * 20 + "1i590" * 8,
    )


def history_report() -> Report:
    facts = HistoryReportFacts(
        since="2026-11-01T00:00:00.000Z",
        until="2026-11-05T00:00:00.000Z",
        branch="main",
        column_s=3600,
        history_strip=tuple(a_row(number, failed) for number, failed in enumerate((5, 30, 1))),
        begins=tuple(f"2026-11-0{1 + at // 24}T{at % 24:02}:00:00.000Z" for at in range(100)),
        infra=(61,),
        columns=(
            ColumnFacts(
                agent="gpu-7", hour="2026-11-03T13:00:00.000Z", passed=1, failed=40, is_infra=True
            ),
        ),
        failing_tests=2,
        outside_tests=0,
        tests=20,
        attempts=2_000,
    )
    return a_report(None, facts=to_builtins(facts))


def test_the_page_is_silent_fits_every_window_and_can_be_read(open_page: Any) -> None:
    opened = open_page(history_report())
    for width in opened.widths(400, 800, 1000, 1600):
        assert opened.page.eval_on_selector_all(".interval, .test", WIDER) == [], width


def test_rows_are_filtered_ordered_and_explained(open_page: Any) -> None:
    page = open_page(history_report()).page

    page.select_option("#order", "low")
    rates = page.eval_on_selector_all(
        "table.heat tbody tr", "all => all.map((each) => each.dataset.low)"
    )
    assert [float(rate) for rate in rates] == sorted(map(float, rates), reverse=True)
    page.fill("#filter", "REUSE [2-")
    assert page.eval_on_selector_all(".test", NAMES) == [
        "test_reuse_of_blocks[2-fp8-tensor_parallel]"
    ]
    assert page.text_content("#count") == "1 of 3 tests"
    box = page.locator("tbody tr:not([hidden]) svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.615, box["y"] + box["height"] / 2)
    assert page.text_content("#place").startswith("2026-11-03 13:00 UTC: infrastructure")

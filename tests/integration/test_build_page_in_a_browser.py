# SPDX-License-Identifier: Apache-2.0
"""The page of a build in a real browser: silent, readable at any width, and worked by keys."""

from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.model.cause import LogLine
from ci_doctor.model.facts.build import BuildFacts
from ci_doctor.model.outcome import Report, Verdict
from tests.support.browser import NEEDS_A_BROWSER, OUTSIDE
from tests.support.build_pages import (
    FULL_DISK,
    a_job,
    a_step,
    build_report,
    fifty_jobs,
    one_job,
    thousand_jobs,
)
from tests.support.builders import a_finding
from tests.support.builds import BUILD_URL

pytestmark = [pytest.mark.integration, pytest.mark.nightly, NEEDS_A_BROWSER]

ROWS = "table.timeline tbody tr"
# Whether the widest word of the column fits into it.
WORD_WIDTHS = """() => [...document.querySelectorAll(".causes [data-name='who acts']")].every((cell) => {
  const range = document.createRange(), text = cell.firstChild, start = text.data.indexOf("environment");
  range.setStart(text, start); range.setEnd(text, start + "environment".length);
  return range.getClientRects().length === 1;
})"""
NOTHING_CUT_OFF = (
    "[...document.querySelectorAll('.scroll')].every((box) => box.scrollWidth <= box.clientWidth)"
)
NAMES = "all => all.map((each) => each.textContent)"


@pytest.mark.parametrize("report", [one_job(), fifty_jobs()], ids=["one job", "fifty jobs"])
def test_a_page_is_silent_fits_every_window_and_can_be_read(open_page: Any, report: Report) -> None:
    opened = open_page(report)
    for width in opened.widths(400, 800, 1600):
        # Nor is anything cut off inside of a table.
        assert opened.page.evaluate(NOTHING_CUT_OFF), width


def test_who_acts_takes_no_room_that_a_window_has_not(open_page: Any) -> None:
    report = fifty_jobs()
    causes = [{**each, "owner": "environment", "retry": "no"} for each in report.facts["causes"]]
    opened = open_page(replace(report, facts={**report.facts, "causes": causes}))
    for width in (400, 800, 961, 1089, 1400):
        opened.page.set_viewport_size({"width": width, "height": 900})

        assert opened.page.evaluate(NOTHING_CUT_OFF), width
        # One line for `✗ does not help`, and no word of the owner in two.
        assert opened.page.evaluate(
            "[...document.querySelectorAll('.causes .bad')].every((each) => each.getClientRects().length === 1)"
        ), width
        assert opened.page.evaluate(WORD_WIDTHS), width


def test_bars_of_different_verdicts_differ_in_more_than_their_colour(open_page: Any) -> None:
    page = open_page(fifty_jobs()).page
    marks = page.eval_on_selector_all(
        "table.timeline line.mark",
        "all => all.map((each) => [each.classList[1], getComputedStyle(each).strokeDasharray])",
    )
    dashes = dict(marks)

    assert set(dashes) == {"failed", "infra", "flaky", "unknown"}
    assert len(set(dashes.values())) == 4
    assert page.locator("table.timeline rect.bar").count() > len(marks)


@pytest.mark.parametrize("script", [True, False])
def test_the_filter_leaves_only_failures_with_and_without_script(
    open_page: Any, script: bool
) -> None:
    page = open_page(fifty_jobs(), script=script).page
    rows = page.locator(f"{ROWS}:visible")
    everything = rows.count()
    assert everything == 52

    page.get_by_text("Only failures").click()
    assert 0 < rows.count() < 20
    assert page.locator("table.timeline tbody.fine:visible").count() == 0

    page.locator("label[for=show-retried]").click()
    assert page.locator("table.timeline tbody:not(.retried):visible").count() == 0
    assert rows.count() == 4

    page.locator("label[for=show-all]").click()
    assert rows.count() == everything


def test_everything_is_shown_without_script_and_no_button_is_dead(open_page: Any) -> None:
    page = open_page(fifty_jobs(), script=False).page

    assert page.locator("table.timeline rect.bar:visible").count() == 51
    assert page.locator("table.causes tbody tr:visible").count() == 3
    assert page.locator(".order").is_hidden()
    assert page.get_by_role("button").count() == 0


def test_steps_are_ordered_by_their_start_and_back_by_keys(open_page: Any) -> None:
    page = open_page(fifty_jobs()).page
    steps = page.locator("table.timeline tbody tr:first-child .step")
    worst_first = steps.evaluate_all(NAMES)

    page.focus("#order-verdict")
    page.keyboard.press("ArrowRight")
    begins = page.locator("table.timeline tbody").evaluate_all(
        "all => all.map((each) => Number(each.dataset.start))"
    )
    assert begins == sorted(begins)
    assert steps.evaluate_all(NAMES) != worst_first

    page.keyboard.press("ArrowLeft")
    assert steps.evaluate_all(NAMES) == worst_first


def test_arrow_keys_walk_from_row_to_row_over_what_is_shown(open_page: Any) -> None:
    page = open_page(fifty_jobs()).page
    page.get_by_text("Only failures").click()
    links = page.locator(f"{ROWS}:visible td[data-name=open] a")
    at = "document.activeElement.getAttribute('href')"
    addresses = links.evaluate_all("all => all.map((each) => each.getAttribute('href'))")

    links.first.focus()
    walked = []
    for key in ("ArrowDown", "ArrowUp", "ArrowUp", "End", "ArrowDown", "Home"):
        page.keyboard.press(key)
        walked.append(page.evaluate(at))
    first, second, last = addresses[0], addresses[1], addresses[-1]
    assert walked == [second, first, first, last, last, first]


def test_tab_shows_where_it_is_and_skips_to_the_evidence(open_page: Any) -> None:
    page = open_page(fifty_jobs()).page
    page.keyboard.press("Tab")

    assert page.evaluate("document.activeElement.textContent") == "Skip to the evidence"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_screen_reader_is_read_a_table_with_words_for_every_bar(open_page: Any) -> None:
    # The narrowest, because there the rows are laid out as a list.
    page = open_page(fifty_jobs(), width=400).page
    table = page.get_by_role("table").last
    rows = table.get_by_role("row")

    assert table.get_by_role("columnheader").count() == 7
    assert rows.count() == 53
    assert table.get_by_role("rowheader").count() == 52
    again = table.get_by_role("row", name="LMCache, flaky, ↳ attempt 2").aria_snapshot()
    for words in ("pass", "+12 min 02 s", "6 min 20 s", "31.0 s"):
        assert words in again, again
    first = table.get_by_role("row", name="retry hid a failure")
    assert "an assertion of a test failed" in first.aria_snapshot()


def test_a_failure_leads_to_the_row_of_its_cause(open_page: Any) -> None:
    page = open_page(fifty_jobs()).page
    page.locator("table.timeline .why a", has_text="a disk is full").first.click()

    target = page.locator("table.causes tr:target")
    assert "No space left on device" in target.inner_text()


def test_every_job_is_a_link_into_its_build(open_page: Any) -> None:
    page = open_page(one_job()).page

    assert page.locator("td[data-name=open] a").evaluate_all(
        "all => all.map((each) => each.href)"
    ) == [f"{BUILD_URL}#01935c7e-0000-4000-8000-000000000001"]


def test_hostile_texts_are_shown_and_not_run(open_page: Any) -> None:
    hostile = "</details><script>alert(1)</script><img src=//x.example/i onerror=alert(2)>\"' onfocus=alert(3) \x00\u202e\x1b[31m$(id)\n"
    cause = replace(FULL_DISK, title=hostile, place=LogLine(file=hostile, message=hostile * 2000), remedy=hostile, steps=(hostile,), jobs=1)  # fmt: skip
    job = a_job(verdict="infra", cause=cause.fingerprint, summary=hostile, agent=hostile, url="javascript:alert(4)", reports=(hostile,))  # fmt: skip
    facts = BuildFacts(
        pipeline=hostile,
        build=1,
        build_url="javascript:alert(5)",
        branch=hostile,
        commit=hostile,
        build_steps=(a_step(hostile, job), a_step("x" * 100_000, job)),
        causes=(cause,),
        missing=(hostile, "y" * 100_000),
        duplicates=(hostile,),
    )
    report = build_report(
        facts, Verdict.VOID, summary=hostile, findings=(a_finding(summary=hostile),)
    )
    for width in (400, 1600):
        opened = open_page(report, width=width)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.page.evaluate(OUTSIDE) == []
        assert "<script>alert(1)</script>" in opened.page.locator(".step bdi").first.evaluate(
            "(each) => each.textContent"
        )
        assert opened.page.locator("a[href^='javascript']").count() == 0
        assert opened.silent(), (opened.said, opened.asked)


def test_paper_shows_every_step_and_what_the_screen_folds(open_page: Any) -> None:
    page = open_page(fifty_jobs(), scheme="dark").page
    page.emulate_media(media="print")

    assert page.locator(".filter").first.is_hidden()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(17, 17, 17)"
    assert page.evaluate(
        "[...document.querySelectorAll('.tall')].every((box) => box.scrollHeight <= box.clientHeight + 1)"
    )
    assert page.evaluate(
        "[...document.querySelectorAll('table.timeline tbody')].every((body) => body.rows[0].checkVisibility({contentVisibilityAuto: true}))"
    )
    assert page.pdf().startswith(b"%PDF")


def test_of_a_thousand_jobs_the_browser_draws_only_those_in_sight(open_page: Any) -> None:
    opened = open_page(thousand_jobs())
    drawn = opened.page.evaluate(
        "[...document.querySelectorAll('table.timeline tbody')].filter((body) => body.rows[0].checkVisibility({contentVisibilityAuto: true})).length"
    )

    assert opened.page.locator("table.timeline tbody").count() == 1000
    assert 100 < drawn < 200
    assert opened.silent(), (opened.said, opened.asked)

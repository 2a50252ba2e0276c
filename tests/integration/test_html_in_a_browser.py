# SPDX-License-Identifier: Apache-2.0
"""report.html in a real browser: nothing is loaded, everything can be read, and keys do what a pointer does."""

from typing import Any

import pytest
from playwright.sync_api import Page

from ci_doctor.model.outcome import About, Evidence, Verdict
from tests.support.browser import NEEDS_A_BROWSER
from tests.support.builders import a_finding, a_report, sample_reports
from tests.support.pictures import aligned, matrix, modes, pictures, regression

pytestmark = [pytest.mark.integration, NEEDS_A_BROWSER]

REPORTS = {**pictures(), **{f"plain {name}": report for name, report in sample_reports().items()}}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.nightly
def test_a_page_is_silent_fits_the_window_and_can_be_read(open_page: Any, name: str) -> None:
    widths = [400, 800, 1280, 1600]
    assert list(open_page(REPORTS[name]).widths(*widths, texts=10)) == widths * 2


def _at(page: Page) -> tuple[str, str, str]:
    """The cell that has the focus: its request, its start, and its text."""
    found: list[str] = page.evaluate(
        """() => {
          const cell = document.activeElement.closest("table.matrix td");
          if (!cell) return ["", "", ""];
          const heads = [...document.querySelectorAll("th[data-start]")];
          return [cell.parentElement.cells[0].textContent, heads[cell.cellIndex - 1].dataset.start, cell.textContent];
        }"""
    )
    return found[0], found[1], found[2]


def test_tab_reaches_one_cell_arrow_keys_walk_and_the_page_says_which_starts_agree(
    open_page: Any,
) -> None:
    page = open_page(regression()).page
    stops = []
    for _ in range(40):
        page.keyboard.press("Tab")
        if _at(page)[0]:
            stops.append(_at(page))
    assert set(stops) == {("gsm8k/train-0040", "a1", "1")}

    page.focus("table.matrix td[tabindex='0']")
    walked = {}
    for key in (
        *("End", "ArrowDown", "ArrowLeft", "ArrowUp", "Home"),
        *("ArrowLeft", "PageDown", "Control+End", "ArrowDown", "Control+Home"),
    ):
        page.keyboard.press(key)
        walked[key] = _at(page)[:2]
    assert walked["End"] == ("gsm8k/train-0040", "B3")
    assert walked["ArrowUp"] == ("gsm8k/train-0040", "B2")
    assert walked["Home"] == walked["ArrowLeft"] == ("gsm8k/train-0040", "a1")
    assert walked["PageDown"][0] not in {"", "gsm8k/train-0040"}
    assert walked["Control+End"] == walked["ArrowDown"]
    assert walked["Control+End"][0].strip() == "all 71 requests"
    assert walked["Control+Home"] == ("gsm8k/train-0040", "a1")

    page.keyboard.press("End")
    said = page.locator("#matrix output").inner_text()
    assert "gsm8k/train-0040 · Disputed · B3" in said
    assert "B1 B2 B3" in said
    assert "a1 a2 A1 A2 A3 A4 A5" in said
    assert page.locator("td.peer").count() == 3
    assert page.locator("table.matrix td[tabindex='0']").count() == 1


@pytest.mark.nightly
def test_a_pointer_tells_the_same_and_so_does_the_strip(open_page: Any) -> None:
    page = open_page(regression()).page
    page.locator("td.none").first.hover()
    assert "gave no answer" in page.locator("#matrix output").inner_text()

    page.locator(".strips [role=img]").click(position={"x": 2, "y": 4})
    assert _at(page)[:2] == ("gsm8k/train-0040", "a1")


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.nightly
def test_the_filter_leaves_only_requests_that_differ_with_and_without_script(
    open_page: Any, script: bool
) -> None:
    page = open_page(modes(), script=script).page
    rows = page.locator("table.matrix tbody tr:not(.title):visible")
    assert rows.count() == 54
    assert page.get_by_text("47 requests that every start answered alike").is_visible()

    page.get_by_text("Only those that differ").click()
    assert rows.count() == 53
    assert not page.get_by_text("47 requests that every start answered alike").is_visible()

    page.get_by_text("All 100").click()
    assert rows.count() == 54


@pytest.mark.nightly
def test_the_filter_is_worked_by_keys_and_stretches_the_strip(open_page: Any) -> None:
    page = open_page(modes()).page
    page.focus("#show-all")
    page.keyboard.press("ArrowRight")

    assert page.locator("table.matrix tbody.equal").is_hidden()
    assert page.locator(".strips svg").first.get_attribute("viewBox") == "0 0 53 10"


@pytest.mark.nightly
def test_everything_is_shown_without_script(open_page: Any) -> None:
    page = open_page(regression(), script=False).page

    assert page.locator("table.matrix tbody td:visible").count() == 30 * 10
    assert page.locator("figure svg rect.bar:visible").count() > 5
    assert not page.locator("#matrix output").is_visible()


@pytest.mark.nightly
def test_hostile_texts_are_shown_and_not_run(open_page: Any) -> None:
    hostile = "</script><script>alert(1)</script><img src=//x.example/i onerror=alert(2)>\"' onfocus=alert(3) \x00\ud800\u202eabc\u2066"
    report = a_report(
        Verdict.REGRESSION,
        summary=hostile,
        reproduce=hostile,
        findings=(
            a_finding(
                summary=hostile, remedy=hostile, evidence=(Evidence(file=hostile, excerpt=hostile),)
            ),
        ),
        facts={
            "commit": hostile,
            "matrix": matrix(
                ["A1", "B1", hostile],
                {hostile: ("own", [0, 1, 2]), "x" * 100_000: (hostile, [0, None, 1])},
            ),
            "aligned": [aligned(hostile, left=hostile, right="x" * 100_000, before=hostile)],
            "suspects": [hostile],
            "clusters": [[hostile]],
            "identity": {
                "differences": [{"fact": hostile, "values": {"A1": hostile, "B1": "x" * 100_000}}]
            },
        },
    )
    for width in (400, 1600):
        opened = open_page(report, width=width)
        opened.page.locator("table.matrix tbody td").first.focus()
        opened.page.locator("table.matrix tbody td.none").hover()
        assert "<script>alert(1)</script>" in opened.page.locator("h3 bdi").first.inner_text()
        assert "U+202E" in opened.page.locator(".sides").inner_text()
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.silent(), (opened.said, opened.asked)


@pytest.mark.nightly
def test_a_script_that_slipped_in_would_not_run_and_could_load_nothing(open_page: Any) -> None:
    opened = open_page(modes())
    opened.page.evaluate(
        """() => {
          const script = document.createElement("script"); script.textContent = "document.title = 'run'";
          const image = document.createElement("img"); image.src = "http://127.0.0.1:9/i.png";
          document.body.append(script, image);
        }"""
    )

    assert opened.page.title() == "~ FLAKY · correctness"
    assert any("Content Security Policy" in line for line in opened.said)
    assert not opened.silent()


@pytest.mark.nightly
def test_paper_shows_what_the_screen_scrolls_or_folds(open_page: Any) -> None:
    page = open_page(regression(), scheme="dark").page
    page.emulate_media(media="print")

    assert page.locator(".filter").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(17, 17, 17)"
    assert page.evaluate(
        "[...document.querySelectorAll('.tall')].every((box) => box.scrollHeight <= box.clientHeight + 1)"
    )
    assert (
        page.evaluate("document.querySelector('.equal-ids p').getBoundingClientRect().height") > 10
    )
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.nightly
def test_the_command_to_reproduce_is_selected_by_one_click(open_page: Any) -> None:
    page = open_page(modes()).page
    page.locator(".command .paste").click()

    assert page.evaluate("getSelection().toString().trim()") == modes().reproduce


@pytest.mark.nightly
def test_a_command_is_copied_by_its_button_with_a_key(open_page: Any) -> None:
    page = open_page(REPORTS["plain regression"]).page
    command = page.locator("pre.paste").first.text_content()

    page.get_by_role("button", name="Copy the command").first.focus()
    page.keyboard.press("Enter")

    page.get_by_role("status").get_by_text("Copied").wait_for(state="attached")
    page.evaluate(
        "() => { const box = document.createElement('textarea'); box.id = 'box'; "
        "document.body.append(box); box.focus(); }"
    )
    page.keyboard.press("Control+V")
    assert page.locator("#box").input_value() == command


@pytest.mark.nightly
def test_the_build_the_commit_and_the_branch_are_links(open_page: Any) -> None:
    about = About(
        pipeline="vllm",
        build=12,
        build_url="https://buildkite.com/o/vllm/builds/12",
        commit="0f" * 20,
        branch="fix/x",
        repository="https://github.com/o/r",
    )
    page = open_page(a_report(about=about)).page

    found = page.locator(".meta a").evaluate_all("all => all.map((each) => each.href)")
    assert found == [
        "https://buildkite.com/o/vllm/builds/12",
        "https://github.com/o/r/commit/" + "0f" * 20,
        "https://github.com/o/r/tree/fix/x",
    ]

# SPDX-License-Identifier: Apache-2.0
"""report.html in a real browser: nothing is loaded, everything can be read, and keys do what a pointer does."""

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from ci_doctor.model.about import About
from ci_doctor.model.finding import Evidence
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import html
from tests.support.builders import a_finding, a_report, sample_reports
from tests.support.pictures import aligned, matrix, modes, pictures, regression

BROWSER = next(
    filter(
        None,
        map(
            shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        ),
    ),
    None,
)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        BROWSER is None,
        reason="no chromium and no google-chrome on PATH: nothing to open the page in",
    ),
]

REPORTS = {**pictures(), **{f"plain {name}": report for name, report in sample_reports().items()}}

# WCAG 2.2, 1.4.3: 4.5 for text. Text on a background that is not opaque counts with what shines through.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const known = new Map();
  const painted = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const rgba = (text) => { if (!known.has(text)) known.set(text, painted(text)); return known.get(text); };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const back = (element) => {
    if (!element) return [255, 255, 255, 1];
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, back(element.parentElement));
  };
  const light = ([r, g, b]) => [[r, .2126], [g, .7152], [b, .0722]].reduce((sum, [value, weight]) => {
    const share = value / 255; return sum + weight * (share <= .04045 ? share / 12.92 : ((share + .055) / 1.055) ** 2.4);
  }, 0);
  const ratio = (front, behind) => {
    const pair = [light(over(front, behind)), light(behind)].sort((one, other) => other - one);
    return (pair[0] + .05) / (pair[1] + .05);
  };
  const poor = []; let seen = 0;
  const look = (element, colour, text) => {
    seen += 1; const found = ratio(rgba(colour), back(element));
    if (found < 4.5) poor.push(`${found.toFixed(2)} ${element.tagName}.${element.className.baseVal ?? element.className}: ${text}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || ["SCRIPT", "TITLE", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    look(element, element.ownerSVGElement ? style.fill : style.color, walker.currentNode.data.trim().slice(0, 30));
  }
  document.querySelectorAll(".sp, .nl, .tab").forEach((mark) => look(mark, getComputedStyle(mark, "::before").color, "mark"));
  return {seen, poor};
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the whole file."""
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=BROWSER, args=options)
        yield running
        running.close()


class Opened:
    """A page, and all that it said and asked for."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", self._dismiss)
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(path.as_uri())

    def _dismiss(self, dialog: Dialog) -> None:
        self.said.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def silent(self) -> bool:
        """Nothing on the console, no error, and nothing asked for but the page (and the icon inside it)."""
        return not self.said and [url for url in self.asked if not url.startswith("data:")] == [
            self.page.url
        ]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """`open_page(report, width=…, scheme=…)` writes the page and opens it."""
    contexts = []

    def opened(
        report: Report, *, width: int = 1600, scheme: Any = "light", script: bool = True
    ) -> Opened:
        path = tmp_path / "report.html"
        path.write_text(html.render(report), encoding="utf-8")
        viewport: Any = {"width": width, "height": 900}
        contexts.append(
            browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=script)
        )
        return Opened(contexts[-1].new_page(), path)

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_silent_fits_the_window_and_can_be_read(open_page: Any, name: str) -> None:
    opened = open_page(REPORTS[name])
    grounds = {}
    for scheme, width in itertools.product(("light", "dark"), (400, 1600)):
        opened.page.emulate_media(color_scheme=scheme)
        opened.page.set_viewport_size({"width": width, "height": 900})
        texts = opened.page.evaluate(CONTRAST)

        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert texts["seen"] > 10
        assert texts["poor"] == []
        grounds[scheme] = opened.page.evaluate(
            "getComputedStyle(document.documentElement).backgroundColor"
        )
    assert opened.silent(), (opened.said, opened.asked)
    assert grounds["light"] == "rgb(247, 247, 245)" != grounds["dark"]


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
        "End",
        "ArrowDown",
        "ArrowLeft",
        "ArrowUp",
        "Home",
        "ArrowLeft",
        "PageDown",
        "Control+End",
        "ArrowDown",
        "Control+Home",
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


def test_a_pointer_tells_the_same_and_so_does_the_strip(open_page: Any) -> None:
    page = open_page(regression()).page
    page.locator("td.none").first.hover()
    assert "gave no answer" in page.locator("#matrix output").inner_text()

    page.locator(".strips [role=img]").click(position={"x": 2, "y": 4})
    assert _at(page)[:2] == ("gsm8k/train-0040", "a1")


@pytest.mark.parametrize("script", [True, False])
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


def test_the_filter_is_worked_by_keys_and_stretches_the_strip(open_page: Any) -> None:
    page = open_page(modes()).page
    page.focus("#show-all")
    page.keyboard.press("ArrowRight")

    assert page.locator("table.matrix tbody.equal").is_hidden()
    assert page.locator(".strips svg").first.get_attribute("viewBox") == "0 0 53 10"


def test_everything_is_shown_without_script(open_page: Any) -> None:
    page = open_page(regression(), script=False).page

    assert page.locator("table.matrix tbody td:visible").count() == 30 * 10
    assert page.locator("figure svg rect.bar:visible").count() > 5
    assert not page.locator("#matrix output").is_visible()


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


def test_the_command_to_reproduce_is_selected_by_one_click(open_page: Any) -> None:
    page = open_page(modes()).page
    page.locator(".command .paste").click()

    assert page.evaluate("getSelection().toString().trim()") == modes().reproduce


OUTSIDE = """() => [...document.querySelectorAll("section *, header *")].filter((each) => {
  const card = each.closest("section") ?? each.closest("header");
  if (each.closest(".scroll, pre, .unseen, .filter input, .strips svg, rect")) return false;
  const inner = each.getBoundingClientRect(), outer = card.getBoundingClientRect();
  return inner.width && (inner.right > outer.right + 1 || inner.left < outer.left - 1);
}).map((each) => `${each.tagName} ${each.textContent.slice(0, 60)}`)"""


@pytest.mark.parametrize("width", [400, 800, 1280])
@pytest.mark.parametrize("name", REPORTS)
def test_nothing_leaves_its_card(name: str, width: int, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(REPORTS[name]))
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri())

    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_a_command_is_copied_by_its_button_with_a_key(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(REPORTS["plain regression"]))
    page = browser.new_page()
    page.goto(file.as_uri())
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
    page.close()


def test_the_build_the_commit_and_the_branch_are_links(browser: Browser, tmp_path: Path) -> None:
    about = About(
        pipeline="vllm",
        build=12,
        build_url="https://buildkite.com/o/vllm/builds/12",
        commit="0f" * 20,
        branch="fix/x",
        repository="https://github.com/o/r",
    )
    file = tmp_path / "report.html"
    file.write_text(html.render(a_report(about=about)))
    page = browser.new_page()
    page.goto(file.as_uri())

    found = page.locator(".meta a").evaluate_all("all => all.map((each) => each.href)")
    assert found == [
        "https://buildkite.com/o/vllm/builds/12",
        "https://github.com/o/r/commit/" + "0f" * 20,
        "https://github.com/o/r/tree/fix/x",
    ]
    page.close()

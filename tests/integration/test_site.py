# SPDX-License-Identifier: Apache-2.0
"""The site of the documentation, built as docs/build.sh builds it and read in a real browser without a network."""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.support.browser import CONTRAST, NEEDS_A_BROWSER, a_browser
from tests.support.cli import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
WIDE = ViewportSize(width=1440, height=900)
NARROW = ViewportSize(width=390, height=844)
FACTS = """() => ({
  width: document.documentElement.scrollWidth,
  headings: document.querySelectorAll("h1").length,
  title: document.title,
  language: document.documentElement.lang,
})"""
IN_VIEW = """() => {
  const box = document.activeElement.getBoundingClientRect();
  return box.right > 0 && box.left < innerWidth && getComputedStyle(document.activeElement).outlineStyle === "solid";
}"""


def build(
    root: Path, site: Path, *, environment: Path = Path(sys.prefix)
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", str(root / "docs" / "build.sh"), str(site)],
        env={**os.environ, "CI_DOCTOR_VENV": str(environment)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The built site, built once for all workers of pytest-xdist."""
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    place = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            ended = build(ROOT, place)
            assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return place


@pytest.fixture(scope="module")
def running() -> Iterator[Page]:
    """A page of a browser."""
    with a_browser() as browser:
        yield browser.new_page()


@pytest.fixture
def page(running: Page) -> Page:
    """A page of a narrow window."""
    running.set_viewport_size(NARROW)
    return running


@pytest.fixture
def small_repository(tmp_path: Path) -> Path:
    """The site's own files and a home page."""
    root = tmp_path / "repository"
    shutil.copytree(ROOT / "docs" / "site", root / "docs" / "site")
    shutil.copy(ROOT / "docs" / "build.sh", root / "docs")
    (root / "README.md").write_text("# Home\n\nText.\n")
    return root


@NEEDS_A_BROWSER
def test_every_page_is_read_from_files_alone_and_fits_a_narrow_window(
    site: Path, page: Page
) -> None:
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    pages = sorted(site.rglob("*.html"))
    wrong: dict[str, Any] = {}
    for path in pages:
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        facts = page.evaluate(FACTS)
        fits = facts["width"] <= NARROW["width"]
        if not (fits and facts["headings"] == 1 and facts["title"] and facts["language"] == "en"):
            wrong[path.name] = facts

    assert wrong == {}
    assert len(pages) > 40
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert said == []


@NEEDS_A_BROWSER
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_code_have_enough_contrast(site: Path, page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    for name in ("docs/exit-codes", "docs/import-race"):
        page.goto((site / f"{name}.html").as_uri())
        texts = page.evaluate(CONTRAST)

        assert texts["seen"] > 100
        assert texts["poor"] == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)"}.get(scheme, "rgb(19, 20, 22)")


@NEEDS_A_BROWSER
def test_the_keyboard_reaches_the_text_the_pages_and_the_search(site: Path, page: Page) -> None:
    page.goto((site / "docs" / "exit-codes.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate(IN_VIEW)

    page.focus("label.nav-overlay-icon")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.querySelector('.sidebar-drawer').getBoundingClientRect().left === 0"
    )
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.ariaExpanded") == "false"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "sidebar-search"
    page.keyboard.type("clopper")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")

    found = page.eval_on_selector_all("#search-results li a", "all => all.map((each) => each.href)")
    assert any("statistics.html" in address for address in found)


@NEEDS_A_BROWSER
def test_a_long_page_shows_where_its_reader_is(site: Path, page: Page) -> None:
    page.set_viewport_size(WIDE)
    page.goto((site / "docs" / "findings.html").as_uri() + "#services/died")

    page.wait_for_function("document.querySelector('.toc-scroll').scrollTop > 0")
    page.wait_for_function("document.querySelector('.sidebar-scroll').scrollTop > 0")
    place = page.locator("section[id='services/died']").bounding_box()
    assert place is not None
    assert 0 <= place["y"] < WIDE["height"] / 2


def test_links_into_the_repository_lead_to_pages_and_copies(site: Path) -> None:
    text = (site / "docs" / "doctor.html").read_text()
    assert 'href="../examples/doctor/README.html"' in text or "examples/doctor" not in text
    listing = (site / "examples" / "lint" / "before" / "index.html").read_text()
    assert "ci/serve_and_test.sh" in listing
    assert (site / "examples/lint/before/ci/serve_and_test.sh.txt").read_bytes() == (
        ROOT / "examples/lint/before/ci/serve_and_test.sh"
    ).read_bytes()
    findings = (site / "docs" / "findings.html").read_text()
    assert 'id="diagnose/network"' in findings


def test_each_mistake_of_a_page_fails_the_build(small_repository: Path, tmp_path: Path) -> None:
    pages = {
        "docs/run.md": "# Run\n\n[nowhere](nowhere.md), [no heading](../README.md#nothing)\n",
        "docs/elsewhere.md": "# A page without a place\n",
    }
    for name, text in pages.items():
        (small_repository / name).write_text(text)

    build(small_repository, tmp_path / "built")
    # A second build has nothing new to read, and must not be green for that.
    ended = build(small_repository, tmp_path / "built")

    assert ended.returncode == 1
    for warning in ("nowhere.md", "'nothing'", "elsewhere.md: WARNING"):
        assert warning in ended.stderr


def test_without_the_extra_a_person_is_told_what_to_type(tmp_path: Path) -> None:
    bare = tmp_path / "venv"
    venv.create(bare, with_pip=False)

    ended = build(ROOT, tmp_path / "site", environment=bare)

    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "docs/build.sh: the extra `docs` is not installed",
        "  hint: sh bootstrap.sh docs",
    ]
    assert not (tmp_path / "site").exists()

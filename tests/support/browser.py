# SPDX-License-Identifier: Apache-2.0
"""A real browser: which one, what a page says in it, and what can be measured of any page."""

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

BROWSER = next(
    filter(
        None,
        map(
            shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        ),
    ),
    None,
)
NEEDS_A_BROWSER = pytest.mark.skipif(
    BROWSER is None,
    reason="no chromium and no google-chrome on PATH: nothing to open the page in",
)

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


OUTSIDE = """() => [...document.querySelectorAll("section *, header *")].filter((each) => {
  const card = each.closest("section") ?? each.closest("header");
  if (each.closest(".scroll, pre, .unseen, .filter input, .strips svg, rect")) return false;
  const inner = each.getBoundingClientRect(), outer = card.getBoundingClientRect();
  return inner.width && (inner.right > outer.right + 1 || inner.left < outer.left - 1);
}).map((each) => `${each.tagName} ${each.textContent.slice(0, 60)}`)"""


@contextmanager
def a_browser() -> Iterator[Browser]:
    """A browser that runs until the context ends."""
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

    def widths(self, *widths: int, texts: int = 20) -> Iterator[int]:
        """Each width of the window, light and dark: there more than `texts` can be read, and nothing lies outside."""
        grounds = {}
        for scheme, width in itertools.product(("light", "dark"), widths):
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            self.page.set_viewport_size({"width": width, "height": 900})
            contrast = self.page.evaluate(CONTRAST)

            assert contrast["seen"] > texts
            assert contrast["poor"] == []
            assert self.page.evaluate("document.documentElement.scrollWidth") <= width
            assert self.page.evaluate(OUTSIDE) == []
            yield width
            grounds[scheme] = self.page.evaluate(
                "getComputedStyle(document.documentElement).backgroundColor"
            )
        assert grounds["light"] == "rgb(247, 247, 245)" != grounds["dark"]
        assert self.silent(), (self.said, self.asked)

    def silent(self) -> bool:
        """Nothing on the console, no error, and nothing asked for but the page (and the icon inside it)."""
        return not self.said and [url for url in self.asked if not url.startswith("data:")] == [
            self.page.url
        ]

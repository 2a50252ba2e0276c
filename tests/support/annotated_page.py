# SPDX-License-Identifier: Apache-2.0
"""Markdown as Buildkite's page shows it: cmark-gfm, then an allow-list, then emoji.

The tags are those of https://buildkite.com/docs/agent/cli/reference/annotate ("supported HTML"), and what
CommonMark makes of Markdown. Emoji stand in text, not in code.
"""

import re
from html.parser import HTMLParser

import cmarkgfm
import nh3
from cmarkgfm.cmark import Options

ALLOWED = {
    *("span", "div", "p", "a", "img", "pre", "code", "table", "details", "summary", "br"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li"),
    *("thead", "tbody", "tr", "th", "td", "strong", "em"),
}
ATTRIBUTES = {"a": {"href"}, "details": {"open"}, "pre": {"lang"}, "code": {"class"}}
OURS = {
    *("p", "a", "pre", "code", "details", "summary", "br", "ul", "li", "strong", "span"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
SCHEMES = {"artifact", "http", "https", "mailto"}
_BLOCKS = {"p", "pre", "li", "summary", "details", "ul"}


class AnnotatedPage(HTMLParser):
    """The tags of a page, its links, its emoji, and its text outside and inside of `<details>`."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.links: list[str] = []
        self.emojis: list[str] = []
        self.folded = ""
        self.unfolded = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    @property
    def text(self) -> str:
        return self.unfolded + self.folded

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in {"href", "src"} and not (value or "").startswith("mailto:"):
                self.links.append(value or "")
        if tag != "br":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another"
        if tag in _BLOCKS:
            self._add("\n")

    def handle_data(self, data: str) -> None:
        if not data.strip() and "pre" not in self._open and "p" not in self._open:
            return
        if not {"code", "pre"} & set(self._open):
            self.emojis += re.findall(r":([a-z0-9_+-]+):", data)
        self._add(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def _add(self, text: str) -> None:
        if "details" in self._open:
            self.folded += text
        elif not (text == "\n" and self.unfolded.endswith("\n")):
            self.unfolded += text


def html_of(markdown: str) -> str:
    """What the page shows of `markdown`."""
    html = cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)
    clean: str = nh3.clean(
        html, tags=ALLOWED, attributes=ATTRIBUTES, url_schemes=SCHEMES, link_rel=None
    )
    return clean


def shown(markdown: str) -> AnnotatedPage:
    """The page of `markdown`, after holding it against the sanitizer, which may take nothing away."""
    page = AnnotatedPage(html_of(markdown))
    raw = AnnotatedPage(
        cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)
    )
    assert (page.tags, page.links, page.text) == (raw.tags, raw.links, raw.text)
    assert set(page.tags) <= OURS
    return page

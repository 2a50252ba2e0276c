# SPDX-License-Identifier: Apache-2.0
"""A page as its elements, for tests of what is in it."""

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br"}
ATTRIBUTES = {
    *("aria-hidden", "aria-label", "aria-labelledby", "aria-live", "charset", "checked", "class", "colspan", "content", "d"),
    *("data-differing", "data-start", "data-title", "data-total", "datetime", "dx", "dy", "for", "height", "hidden", "href"),
    *("http-equiv", "id", "lang", "name", "preserveaspectratio", "rel", "role", "rowspan", "rx", "scope", "tabindex"),
    "data-name",
    *("text-anchor", "title", "type", "viewbox", "width", "x", "x1", "x2", "y", "y1", "y2"),
}  # fmt: skip


class ParsedPage(HTMLParser):
    """A page's elements; raises where one is not closed, or has an attribute that the templates do not have."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.marked = ""
        self.raw: dict[str, str] = {"script": "", "style": ""}
        self.policy = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= ATTRIBUTES
        found = dict(attrs)
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "a":
            self.links.append(found["href"] or "")
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.raw:
            self.raw[self.open[-1]] += data
        else:
            self.text += data
            self.marked += data if "mark" in self.open else ""

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

# SPDX-License-Identifier: Apache-2.0
"""Reads the pages of the documentation: which there are, and what a reader of CommonMark finds in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from docs.site.made_pages import PAGES as MADE
from docs.site.made_pages import made_page

ROOT = Path(__file__).parents[3]
_PATTERNS = (
    "*.md",
    "docs/**/*.md",
    "examples/**/README.md",
    "buildkite_plugins/**/README.md",
)
# What changed in the past is not made true again.
_NOT_CHECKED = {"CHANGELOG.md"}
_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_COMMENT = re.compile(r"\s*<!--\s*(.*?)\s*-->\s*", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of code: where its fence stands, its language, its text, and the comment right above it."""

    page: str
    line: int
    language: str
    text: str
    comment: str | None = None

    def __str__(self) -> str:
        """As compilers name a place."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Heading:
    """A heading: its level, and its text as a reader sees it."""

    line: int
    level: int
    text: str


@dataclass(frozen=True)
class Page:
    """A page: its name from the root of the repository, and its parts in their order.

    `comments` are all of its HTML comments, each with its line; `links` the targets of links and images;
    `code` the inline code; `ids` what `<a id="…">` names.
    """

    name: str
    blocks: tuple[Block, ...] = ()
    headings: tuple[Heading, ...] = ()
    comments: tuple[tuple[int, str], ...] = ()
    links: tuple[tuple[int, str], ...] = ()
    code: tuple[tuple[int, str], ...] = ()
    ids: frozenset[str] = field(default=frozenset())

    @property
    def path(self) -> Path:
        """Where the page lies."""
        return ROOT / self.name


def page_names() -> list[str]:
    """Every page that people read in the repository or on the site."""
    found = {
        path.relative_to(ROOT).as_posix() for pattern in _PATTERNS for path in ROOT.glob(pattern)
    }
    return sorted((found | set(MADE)) - _NOT_CHECKED)


@cache
def read_page(name: str) -> Page:
    """The page of that name."""
    text = made_page(name) if name in MADE else (ROOT / name).read_text(encoding="utf-8")
    return parse_page(name, text)


def parse_page(name: str, text: str) -> Page:
    """Pure: the page that a text is."""
    tokens = _PARSER.parse(text)
    inline = [
        (token.map[0] + 1, child)
        for token in tokens
        if token.type == "inline" and token.map is not None
        for child in token.children or ()
    ]
    comments = [
        (_line(token), comment[1])
        for token in tokens
        if token.type == "html_block" and (comment := _COMMENT.fullmatch(token.content))
    ]
    return Page(
        name=name,
        blocks=tuple(_blocks(name, tokens)),
        headings=tuple(_headings(tokens)),
        comments=tuple(comments),
        links=tuple(_targets(inline)),
        code=tuple((line, child.content) for line, child in inline if child.type == "code_inline"),
        ids=frozenset(re.findall(r'<a id="([^"]+)">', text)),
    )


def _line(token: Token) -> int:
    assert token.map is not None, token
    return token.map[0] + 1


def _blocks(name: str, tokens: list[Token]) -> Iterator[Block]:
    for number, token in enumerate(tokens):
        if token.type != "fence":
            continue
        above = tokens[number - 1] if number else None
        comment = None
        if above is not None and above.type == "html_block":
            comment = _COMMENT.fullmatch(above.content)
        language = token.info.strip().partition(" ")[0]
        yield Block(name, _line(token), language, token.content, comment and comment[1])


def _headings(tokens: list[Token]) -> Iterator[Heading]:
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            parts = tokens[number + 1].children or ()
            text = "".join(part.content for part in parts if part.type != "html_inline")
            yield Heading(_line(token), int(token.tag[1]), text)


def _targets(inline: list[tuple[int, Token]]) -> Iterator[tuple[int, str]]:
    for line, child in inline:
        target = child.attrGet("href" if child.type == "link_open" else "src")
        if isinstance(target, str):
            yield line, target

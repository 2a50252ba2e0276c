# SPDX-License-Identifier: Apache-2.0
"""Pure. The sentences of a Markdown page, their words and joints, and the long cells of its tables.

Code, tables, headings, images, link targets and HTML are no sentences. A *joint* is a comma, a semicolon, a colon, a bracket
or a dash: each begins a part that a reader must hold in mind.
"""

import re

LONG = 25  # words; "more than 25 words" is the limit that public style guides for plain English use
_NOT_PROSE = (
    re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL),  # fenced code
    re.compile(r"^ {4,}\S.*$", re.MULTILINE),  # indented code
    re.compile(r"^\s*\|.*$", re.MULTILINE),  # a row of a table
    re.compile(r"^#.*$", re.MULTILINE),  # a heading
    re.compile(r"!\[[^\]]*\]\([^)]*\)"),  # an image
    re.compile(r"<[^>]+>"),  # HTML
)
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)")
# Names of tools begin a sentence in lower case.
_NAMES = (
    "ci-doctor|pytest|tox|nox|coverage|structlog|pre-commit|bktec|just|pip|git|vLLM|httpx|torch"
)
_SENTENCE = re.compile(rf"(?<=[.!?:])\s+(?=[A-Z*\"(“])|(?<=[.!?])\s+(?=(?:{_NAMES})\b)")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d[\d.,]*")
_JOINT = re.compile(r"[,;:(]| [–—-] |—")
_ROW = re.compile(r"^\s*\|(.*)\|\s*$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)


def sentences(markdown: str) -> list[str]:
    """The sentences of a page that have a word; `CODE` replaces each piece of inline code."""
    text = markdown
    for pattern in _NOT_PROSE:
        text = pattern.sub("\n", text)
    text = _CODE.sub("CODE", _LINK.sub(r"\1", text))
    split: list[str] = []
    for paragraph in _PARAGRAPH.split(text):
        one_line = " ".join(paragraph.split())
        split += [sentence for sentence in _SENTENCE.split(one_line) if words(sentence)]
    return split


def words(text: str) -> int:
    return len(_WORD.findall(text))


def joints(sentence: str) -> int:
    """A colon at the end introduces a block and is none."""
    return len(_JOINT.findall(sentence.rstrip(":")))


def long_cells(markdown: str) -> list[str]:
    """The cells of a page's tables with more than LONG words."""
    rows = _ROW.findall(_FENCED.sub("", markdown))
    cells = (cell.strip() for row in rows for cell in _CELL.split(row))
    return [cell for cell in cells if words(cell) > LONG]

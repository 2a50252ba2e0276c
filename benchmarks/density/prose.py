# SPDX-License-Identifier: Apache-2.0
"""Pure. Counts relative pronouns in the prose of a Markdown page.

Code, tables, headings, images, link targets and HTML are no prose. A word list decides whether
`that` is a relative pronoun, so the figure is an estimate. The list was checked by reading the
hits of this repository's own pages.
"""

import re
from typing import NamedTuple

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
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")

_ALWAYS_RELATIVE = frozenset({"which", "who", "whom", "whose", "what"})
# After these words `that` begins an object clause ("it shows that …") …
_BEFORE_A_CLAUSE = """
    so such fact given provided note sure now except
    say says said show shows shown mean means know knows known see sees find finds found
    notice notices check checks checked prove proves proven assume assumes believe tell tells told
    report reports reported state states print prints ensure ensures guarantee guarantees
    expect expects require requires confirm confirms suggest
"""
# … and after these it is a demonstrative ("at that moment").
_BEFORE_A_NOUN = """
    and or but like than after before until with by of for at from to on as under into in
"""
_NOT_RELATIVE_AFTER = frozenset((_BEFORE_A_CLAUSE + _BEFORE_A_NOUN).split())


class Prose(NamedTuple):
    """How many words a text has, and how many of them are relative pronouns."""

    words: int
    pronouns: int

    @property
    def per_100_words(self) -> float:
        return 100 * self.pronouns / self.words if self.words else 0.0


def read_prose(markdown: str) -> Prose:
    """Count the words and the relative pronouns of a page."""
    words = pronouns = 0
    for sentence in sentences(markdown):
        lower_case = [word.lower() for word in _WORD.findall(sentence)]
        words += len(lower_case)
        pronouns += relative_pronouns(lower_case)
    return Prose(words, pronouns)


def sentences(markdown: str) -> list[str]:
    """The sentences of a page; `CODE` replaces each piece of inline code."""
    text = markdown
    for pattern in _NOT_PROSE:
        text = pattern.sub("\n", text)
    text = _CODE.sub("CODE", _LINK.sub(r"\1", text))
    split: list[str] = []
    for paragraph in _PARAGRAPH.split(text):
        one_line = " ".join(paragraph.split())
        split += [sentence for sentence in _SENTENCE.split(one_line) if sentence]
    return split


def relative_pronouns(words: list[str]) -> int:
    """Count them in the lower-case words of one sentence."""
    count = 0
    for index, word in enumerate(words):
        if word in _ALWAYS_RELATIVE:
            # "What to do" holds no clause.
            count += words[index + 1 : index + 2] != ["to"]
        elif word == "that" and index > 0:
            count += words[index - 1] not in _NOT_RELATIVE_AFTER
    return count

# SPDX-License-Identifier: Apache-2.0
"""Pure. Measures how hard the sentences of a page are: their length, their joints, their passives.

A *joint* is a comma, a semicolon, a colon, a bracket or a dash: each begins a part that a reader
must hold in mind. A passive is a form of `be` and a participle. Participles are known by `-ed` and
by a list of irregular ones, so that figure is an estimate. Every project is counted alike.
"""

import re
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .prose import relative_pronouns

LONG = 25  # words; "more than 25 words" is the limit that public style guides for plain English use
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d[\d.,]*")
_JOINT = re.compile(r"[,;:(]| [–—-] |—")
_BE = frozenset(("is", "are", "was", "were", "be", "been", "being"))
_BETWEEN = frozenset(("not", "never", "always", "also", "only", "then", "already", "again", "all"))
_IRREGULAR_WORDS = """
    begun bound broken brought built bought caught chosen cut done drawn driven fed felt found
    forgotten frozen given held hidden hit kept known laid left lent lost made meant met paid put
    read run said seen sent set shown shut sold split spent spread stolen taken taught thrown told
    understood won written
"""
_IRREGULAR = frozenset(_IRREGULAR_WORDS.split())


_ROW = re.compile(r"^\s*\|(.*)\|\s*$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)


class Sentence(NamedTuple):
    """The figures of one sentence."""

    words: int
    joints: int
    pronouns: int
    passive: bool


class Readability(NamedTuple):
    """The figures of a page or a project."""

    sentences: tuple[Sentence, ...]

    @property
    def words(self) -> int:
        return sum(sentence.words for sentence in self.sentences)

    @property
    def median_words(self) -> float:
        return statistics.median(sentence.words for sentence in self.sentences)

    @property
    def p90_words(self) -> int:
        lengths = sorted(sentence.words for sentence in self.sentences)
        return lengths[int(0.9 * len(lengths))]

    @property
    def long_share(self) -> float:
        """Percent of the sentences with more than LONG words."""
        long = sum(sentence.words > LONG for sentence in self.sentences)
        return 100 * long / len(self.sentences)

    @property
    def joints_per_sentence(self) -> float:
        return sum(sentence.joints for sentence in self.sentences) / len(self.sentences)

    @property
    def pronouns_per_100_words(self) -> float:
        return 100 * sum(sentence.pronouns for sentence in self.sentences) / self.words

    @property
    def passive_share(self) -> float:
        """Percent of the sentences with a passive."""
        passive = sum(sentence.passive for sentence in self.sentences)
        return 100 * passive / len(self.sentences)


def read_sentences(texts: Iterable[str]) -> Readability:
    """Measure sentences; those without a word do not count."""
    measured: list[Sentence] = []
    for text in texts:
        sentence = read_sentence(text)
        if sentence.words:
            measured.append(sentence)
    return Readability(tuple(measured))


def read_sentence(text: str) -> Sentence:
    words = [word.lower() for word in _WORD.findall(text)]
    joints = len(_JOINT.findall(text.rstrip(":")))
    return Sentence(len(words), joints, relative_pronouns(words), has_passive(words))


def has_passive(words: Sequence[str]) -> bool:
    """Whether a form of `be` stands before a participle, with at most two adverbs between."""
    for index, word in enumerate(words):
        if word not in _BE:
            continue
        for following in words[index + 1 : index + 4]:
            if following in _IRREGULAR or (following.endswith("ed") and len(following) > 3):
                return True
            if following not in _BETWEEN and not following.endswith("ly"):
                break
    return False


def long_cells(markdown: str) -> list[str]:
    """The cells of a Markdown page's tables with more than LONG words."""
    found: list[str] = []
    for row in _ROW.findall(_FENCED.sub("", markdown)):
        cells = [cell.strip() for cell in _CELL.split(row)]
        found += [cell for cell in cells if len(_WORD.findall(cell)) > LONG]
    return found

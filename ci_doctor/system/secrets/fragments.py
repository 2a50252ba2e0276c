# SPDX-License-Identifier: Apache-2.0
"""Pure. Where pieces of known secrets stand: of one that was wrapped, cut, or stamped line by line."""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from ci_doctor.system.secrets.spans import Span

_GRAM = 8
_SHORTEST_WORD = 12
_MOST_BYTES = 256 * 1024
_WORD = re.compile(rb"[A-Za-z0-9+/=_%-]{8,}")
_LETTER = re.compile(rb"[A-Za-z]")
_DIGIT = re.compile(rb"[0-9]")


class Fragments:
    """The pieces of secrets that no other text holds by chance: eight characters of a random word."""

    def __init__(self, forms: Iterable[bytes]) -> None:
        """`forms` are the secrets as they may be written."""
        self._forms = tuple(forms)

    def spans(self, content: bytes) -> Iterator[Span]:
        """Where a word of `content` begins and ends as a piece of a secret does."""
        grams = self._grams
        if not grams:
            return
        # Most words of a log are repeated, and none of them is a piece of a secret.
        pieces = {word for word in set(_WORD.findall(content)) if self._is_piece(word)}
        if not pieces:
            return
        for match in _WORD.finditer(content):
            if match[0] in pieces:
                yield match.span()

    def may_stand_in(self, content: bytes) -> bool:
        """Whether `spans` finds something in `content`."""
        return next(self.spans(content), None) is not None

    def _is_piece(self, word: bytes) -> bool:
        return word[:_GRAM] in self._grams and word[-_GRAM:] in self._grams and _is_random(word)

    @cached_property
    def _grams(self) -> frozenset[bytes]:
        grams: set[bytes] = set()
        left = _MOST_BYTES
        for form in self._forms:
            left -= len(form)
            if left < 0:
                break
            for word in _WORD.findall(form):
                if len(word) >= _SHORTEST_WORD and _is_random(word):
                    grams.update(
                        word[start : start + _GRAM] for start in range(len(word) - _GRAM + 1)
                    )
        return frozenset(grams)


def _is_random(word: bytes) -> bool:
    return _LETTER.search(word) is not None and _DIGIT.search(word) is not None

# SPDX-License-Identifier: Apache-2.0
"""Pure. A regex whose time is bounded: by RE2, which never backtracks, or by the length of the text."""

import re
from typing import Protocol

# The time of `re` may grow with the square of the length of a text. In characters.
_SHORT_TEXT = 400


class Match(Protocol):
    """What both regex engines give back."""

    def groupdict(self) -> dict[str, str | None]:
        """The named groups."""


def fields_of(match: Match) -> dict[str, str]:
    """The named groups that hold something."""
    return {name: value for name, value in match.groupdict().items() if value}


class Pattern(Protocol):
    """A compiled regex of either engine."""

    def search(self, text: str, /) -> Match | None:
        """The first match in `text`."""


class BoundedRegex:
    """`regex`, in the syntax that both engines read; each is compiled when it is needed first.

    RE2 takes time linear in the text (https://github.com/google/re2/wiki/WhyRE2), and is slower to
    load and to start than `re`. So `re` reads short texts, if the regex is not `is_foreign`.
    """

    def __init__(self, regex: str, *, is_foreign: bool) -> None:
        self._regex = regex
        self._is_foreign = is_foreign
        self._of_re: Pattern | None = None
        self._of_re2: Pattern | None = None

    def search(self, text: str, /) -> Match | None:
        """The first match in `text`."""
        if self._is_foreign or len(text) > _SHORT_TEXT:
            return self._linear().search(text)
        if self._of_re is None:
            self._of_re = re.compile(self._regex)
        return self._of_re.search(text)

    def _linear(self) -> Pattern:
        if self._of_re2 is None:
            import re2

            self._of_re2 = re2.compile(self._regex)
        return self._of_re2

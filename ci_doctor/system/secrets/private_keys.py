# SPDX-License-Identifier: Apache-2.0
"""Pure. Where private keys stand in a text: whole ones, cut ones, and ones whose lines have prefixes.

A key is many lines, and others may cut a text, stamp its lines, or write it as one line with escapes.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate

from ci_doctor.system.secrets.base64_lines import (
    FULL,
    flat,
    is_full,
    last_word,
    may_hold_lines,
    shape,
    wide_spans,
    words,
)
from ci_doctor.system.secrets.spans import Span, blanked, through_colours

# Bytes from the first line of a key to its last one, with what a log puts before each line.
LONGEST_KEY = 32_768
_MOST_LINES = 400
# Lines of another process between two lines of a key, where its end is missing.
_MOST_BETWEEN = 3
_SPACE = rb"(?:[ +]|%20)"
_KIND = rb"(?:" + _SPACE + rb"[A-Z0-9]{1,12}){0,4}" + _SPACE + rb"PRIVATE" + _SPACE + rb"KEY"
_KIND += rb"(?:" + _SPACE + rb"BLOCK)?" + _SPACE + rb"?-----?"
# RFC 7468, RFC 4716 (four dashes), PuTTY's own form, and base64 of a PEM block.
_BEGIN = (
    rb"----(?:-|"
    + _SPACE
    + rb")BEGIN"
    + _KIND
    + rb"|Private-Lines(?::|%3A)(?:[ +]|%20)?\d{1,3}|(?:LS0tLS1CRUdJTi|LS0tLSBCRUdJTi|UHVUVFktVXNlci1LZXkt)[A-Za-z0-9+/]{0,200}"
)
_END = (
    rb"----(?:-|"
    + _SPACE
    + rb")END"
    + _KIND
    + rb"|Private-MAC(?::|%3A)(?:[ +]|%20)?[0-9a-f]{0,64}|LS0tLS1FTkQ[A-Za-z0-9+/=]{0,100}"
)
_MARK = re.compile(rb"(?P<begin>" + _BEGIN + rb")|(?P<end>" + _END + rb")")
# What is in each mark: to look for these first is what keeps a log without keys cheap.
_HINTS = (
    b"PRIVATE",
    b"Private-",
    b"LS0tLS1CRUdJTi",
    b"LS0tLS1FTkQ",
    b"LS0tLSBCRUdJTi",
    b"UHVUVFktVXNlci1",
)
# Not all base64 of a key in a kubeconfig begins with a private one: a certificate stays.
_PRIVATE_IN_BASE64 = re.compile(
    rb"LS0tLS1CRUdJTi(?:BSU0EgUFJJVk|BQUklWQVRFIE|BFQyBQUklWQV|BPUEVOU1NIIF|BFTkNSWVBUR|BEU0EgUFJJVk"
    rb"|BQR1AgUFJJVk)"
)
_HEADER = re.compile(
    rb"(?:Proc-Type|DEK-Info|Version|Comment|Subject|Charset|Hash|MessageID|X-[\w-]{1,40}): ?[^\n]*"
)


def key_spans(content: bytes) -> Iterator[Span]:
    """Where private keys, or pieces of them, stand in `content`; the spans may overlap.

    A key with its beginning and its end is one span. Of another one each line is a span, and of what
    has neither, lines of one width that only random base64 has.
    """
    yield from marked_spans(content)
    yield from _uncoloured(content, wide_spans)


def marked_spans(content: bytes) -> Iterator[Span]:
    """The same of keys whose first or last line stands in `content`: far cheaper."""
    if may_mark_key(content):
        yield from _uncoloured(content, lambda plain: _MarkedKeys(flat(plain)).spans())


def _uncoloured(content: bytes, find: Callable[[bytes], Iterable[Span]]) -> Iterable[Span]:
    return through_colours(content, find) if b"\x1b" in content else find(content)


def without_keys(content: bytes) -> bytes:
    """`content` of the same length without the keys of which the first or the last line is there.

    For what is cut out of a log: a piece of a key tells nobody any more what it is.
    """
    if not may_mark_key(content):
        return content
    return blanked(content, sorted(marked_spans(content)))


def without_key_lines(content: bytes) -> bytes:
    """The same, also without the lines of a key that has neither; it takes longer."""
    return blanked(content, sorted(key_spans(content))) if may_hold_key(content) else content


def may_mark_key(content: bytes) -> bool:
    """Whether the first or last line of a key could stand in `content`."""
    return any(hint in content for hint in _HINTS)


def may_hold_key(content: bytes) -> bool:
    """Whether `key_spans` could find something in a line of `content`; never false if it does."""
    return may_mark_key(content) or may_hold_lines(content)


class _MarkedKeys:
    """The keys in a text of which the first or the last line is there."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._text.split(b"\n")

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self._lines)]

    def spans(self) -> Iterator[Span]:
        begun: re.Match[bytes] | None = None
        previous = 0
        for mark in _MARK.finditer(self._text):
            if mark["begin"]:
                if begun is not None:
                    yield from self._after(begun, mark.start())
                begun = mark
                continue
            if begun is None:
                yield from self._before(mark, previous)
            elif mark.start() - begun.end() > LONGEST_KEY:
                yield from self._after(begun, mark.start())
                yield from self._before(mark, begun.end())
            elif self._is_private(begun):
                yield begun.start(), mark.end()
            begun = None
            previous = mark.end()
        if begun is not None:
            yield from self._after(begun, len(self._text))

    def _is_private(self, begun: re.Match[bytes]) -> bool:
        if not begun[0].startswith(b"LS0tLS1"):
            return True
        # Broken into lines, or whole.
        return _PRIVATE_IN_BASE64.match(self._text, begun.start()) is not None

    def _after(self, begun: re.Match[bytes], limit: int) -> Iterator[Span]:
        """The mark, and the lines of a key that go on after it."""
        if not self._is_private(begun):
            return
        yield begun.span()
        line = self._line_of(begun.end())
        limit = min(limit, begun.end() + LONGEST_KEY)
        rest = self._text[begun.end() : min(limit, self._starts[line + 1] - 1)]
        yield from _words_in(rest, begun.end())
        last = min(len(self._lines), line + 1 + _MOST_LINES)
        yield from self._body(range(line + 1, last), begun.end(), limit)

    def _before(self, mark: re.Match[bytes], previous: int) -> Iterator[Span]:
        """The mark, and the lines of a key that go up from it."""
        yield mark.span()
        line = self._line_of(mark.start())
        first = max(previous, mark.start() - LONGEST_KEY)
        begin = max(first, self._starts[line])
        yield from _words_in(self._text[begin : mark.start()], begin)
        numbers = range(line - 1, max(-1, line - 1 - _MOST_LINES), -1)
        yield from self._body(numbers, first, mark.start(), may_be_short=True)

    def _body(
        self, numbers: range, first: int, limit: int, *, may_be_short: bool = False
    ) -> Iterator[Span]:
        """The lines of a key among those of `numbers`, which go away from its mark."""
        between = 0
        usual = None
        for number in numbers:
            start = self._starts[number]
            if start >= limit or start < first:
                return
            line = self._lines[number]
            word = last_word(line)
            if word is None and (not line.strip() or _HEADER.search(line)):
                continue
            before = b"" if word is None else shape(line[: word.start()])
            # The last line of a key may be short: one that has what the others have before it.
            if word is None or not (is_full(word[0]) or may_be_short or before == usual):
                between += 1
                if between > _MOST_BETWEEN:
                    return
                continue
            yield start + word.start(), start + word.end()
            if len(word[0]) < FULL and not may_be_short:
                return
            may_be_short = False
            between = 0
            usual = before

    def _line_of(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1


def _words_in(rest: bytes, base: int) -> Iterator[Span]:
    """The words of base64 in the rest of a mark's line, where blanks stand for line ends."""
    found = words(rest)
    if any(is_full(word[0]) for word in found):
        yield from ((base + word.start(), base + word.end()) for word in found)

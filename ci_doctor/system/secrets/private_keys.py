# SPDX-License-Identifier: Apache-2.0
"""Pure. Where private keys stand in a text: whole ones, cut ones, and ones whose lines have prefixes.

A key is many lines, and others may cut a text, stamp its lines, or write it as one line with escapes.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate

from ci_doctor.system.secrets.spans import Span, blanked

# Bytes from the first line of a key to its last one, with what a log puts before each line.
LONGEST_KEY = 32_768
_MOST_LINES = 400
# Lines of another process between two lines of a key, where its end is missing.
_MOST_BETWEEN = 3
_SPACE = rb"(?:[ +]|%20)"
_KIND = rb"(?:" + _SPACE + rb"[A-Z0-9]{1,12}){0,4}" + _SPACE + rb"PRIVATE" + _SPACE + rb"KEY"
_KIND += rb"(?:" + _SPACE + rb"BLOCK)?" + _SPACE + rb"?-----?"
# RFC 7468, RFC 4716 (four dashes), PuTTY's own form, and base64 of a PEM block.
_BEGIN = rb"----[- ]BEGIN" + _KIND + rb"|Private-Lines: ?\d{1,3}|LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,200}"
_END = rb"----[- ]END" + _KIND + rb"|Private-MAC: ?[0-9a-f]{0,64}|LS0tLS1FTkQ[A-Za-z0-9+/=]{0,100}"
_MARK = re.compile(rb"(?P<begin>" + _BEGIN + rb")|(?P<end>" + _END + rb")")
_ANY_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{1,40}-----")
# What is in each mark: to look for these first is what keeps a log without keys cheap.
_HINTS = (b"PRIVATE", b"Private-", b"LS0tLS1CRUdJTi", b"LS0tLS1FTkQ")
# Not all base64 of a key in a kubeconfig begins with a private one: a certificate stays.
_PRIVATE_IN_BASE64 = re.compile(
    rb"LS0tLS1CRUdJTi(?:BSU0EgUFJJVk|BQUklWQVRFIE|BFQyBQUklWQV|BPUEVOU1NIIF|BFTkNSWVBUR|BEU0EgUFJJVk"
    rb"|BQR1AgUFJJVk)"
)
# A line's end as text shows it, escaped once or several times; a colour and its end.
_ESCAPED = re.compile(
    rb"\\{1,8}(?:r\\{1,8})?[nr]|\\{1,8}u000[aAdD]|%(?:25){0,4}0[AaDd]|&#(?:10|13|x[aAdD]);"
)
_COLOUR = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_WORD = re.compile(rb"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/]{1,}={0,3}(?![A-Za-z0-9+/=_-])")
_HEADER = re.compile(
    rb"(?:Proc-Type|DEK-Info|Version|Comment|Subject|Charset|Hash|MessageID|X-[\w-]{1,40}): ?[^\n]*"
)
# Without a mark: lines of one of the widths at which base64 is broken, two of them or more.
# What stands beside a path's part is none.
_WIDE = re.compile(rb"(?<![A-Za-z0-9+/_.%@-])[A-Za-z0-9+/]{56,80}={0,2}(?![A-Za-z0-9+/=_.%?@-])")
_CAPITALS = bytes(range(65, 91))
_SMALL = bytes(range(97, 123))
_DIGITS = bytes(range(48, 58))
# More lines are a file, and so is what begins as gzip, PNG, JPEG, ZIP and GIF do.
_LONGEST_GROUP = 160
_OF_FILES = (b"H4sI", b"iVBORw0KGgo", b"/9j/", b"UEsDB", b"R0lGOD")
_MOST_APART = 200
_NUMBER = re.compile(rb"\d+")
_WIDTHS = frozenset({64, 70, 72, 76})
_FULL = 16
_SHORTEST_REST = 8


def key_spans(content: bytes) -> Iterator[Span]:
    """Where private keys, or pieces of them, stand in `content`; the spans may overlap.

    A key with its beginning and its end is one span. Of another one each line is a span, and of what
    has neither, lines of one width that only random base64 has.
    """
    yield from marked_spans(content)
    if len(content) >= min(_WIDTHS):
        yield from _unmarked_spans(content)


def marked_spans(content: bytes) -> Iterator[Span]:
    """The same of keys whose first or last line stands in `content`: far cheaper."""
    if may_mark_key(content):
        yield from _MarkedKeys(_flat(content)).spans()


def without_keys(content: bytes) -> bytes:
    """`content` of the same length without the keys of which the first or the last line is there.

    For what is cut out of a log: a piece of a key tells nobody any more what it is.
    """
    if not may_mark_key(content):
        return content
    return blanked(content, sorted(marked_spans(content)))


def may_mark_key(content: bytes) -> bool:
    """Whether the first or last line of a key could stand in `content`."""
    return any(hint in content for hint in _HINTS)


def may_hold_key(content: bytes) -> bool:
    """Whether `key_spans` could find something in a line of `content`; never false if it does."""
    return may_mark_key(content) or _WIDE.search(content) is not None


def _flat(content: bytes) -> bytes:
    """`content` of the same length, with line ends for escaped ones and blanks for colours."""
    if b"\x1b" in content:
        content = _COLOUR.sub(lambda match: b" " * len(match[0]), content)
    if b"\\" in content or b"%" in content or b"&#" in content:
        content = _ESCAPED.sub(lambda match: b" " * (len(match[0]) - 1) + b"\n", content)
    return content


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
        if not begun[0].startswith(b"LS0t"):
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
        shape = None
        for number in numbers:
            start = self._starts[number]
            if start >= limit or start < first:
                return
            line = self._lines[number]
            word = _last_word(line)
            if word is None and (not line.strip() or _HEADER.search(line)):
                continue
            before = b"" if word is None else _shape(line[: word.start()])
            # The last line of a key may be short: one that has what the others have before it.
            if word is None or not (_is_full(word[0]) or may_be_short or before == shape):
                between += 1
                if between > _MOST_BETWEEN:
                    return
                continue
            yield start + word.start(), start + word.end()
            if len(word[0]) < _FULL and not may_be_short:
                return
            may_be_short = False
            between = 0
            shape = before

    def _line_of(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1


def _last_word(line: bytes) -> re.Match[bytes] | None:
    """The word of base64 with which `line` ends, but for quotes and brackets around it."""
    last = None
    end = len(line.rstrip(b" \t\r'\"`,;)]}>|\\"))
    for match in _WORD.finditer(line, max(0, end - 400), end):
        last = match
    if last is None or last.end() != end:
        return None
    return last


def _words_in(rest: bytes, base: int) -> Iterator[Span]:
    """The words of base64 in the rest of a mark's line, where blanks stand for line ends."""
    words = list(_WORD.finditer(rest))
    if any(_is_full(word[0]) for word in words):
        yield from ((base + word.start(), base + word.end()) for word in words)


def _shape(before: bytes) -> bytes:
    """What stands before a word, whatever time it tells."""
    return _NUMBER.sub(b"0", before)


def _is_full(word: bytes) -> bool:
    """Whether `word` is long and random enough for a line of a key: no path or name is."""
    return len(word) >= _FULL and _is_random(word)


def _is_random(word: bytes) -> bool:
    """Whether `word` has capital letters, small ones and digits, as many as base64 of anything has."""
    least = len(word) // 8
    kinds = (_CAPITALS, _SMALL)
    # A path of words has few capitals.
    if any(len(word) - len(word.translate(None, kind)) < max(1, least) for kind in kinds):
        return False
    return len(word) - len(word.translate(None, _DIGITS)) >= max(1, least // 4)


def _unmarked_spans(content: bytes) -> Iterator[Span]:
    """Lines of one width that only random base64 has; a certificate's stay."""
    text = content
    # An escape ends with a letter that the next line's word seems to begin with.
    if _ESCAPED.search(content) is not None or b"\x1b" in content:
        text = _flat(content)
    group: list[re.Match[bytes]] = []
    for match in _WIDE.finditer(text):
        if not _is_random(match[0]):
            continue
        if group and not _belong(text, group[-1], match):
            yield from _group_spans(text, group)
            group = []
        group.append(match)
    if group:
        yield from _group_spans(text, group)


def _belong(text: bytes, one: re.Match[bytes], next_: re.Match[bytes]) -> bool:
    """Whether both are lines of one text: as wide, and on neighbouring lines or side by side."""
    if len(one[0]) != len(next_[0]) or next_.start() - one.end() > _MOST_APART:
        return False
    return text.count(b"\n", one.end(), next_.start()) <= _MOST_BETWEEN


def _group_spans(text: bytes, group: list[re.Match[bytes]]) -> Iterator[Span]:
    first = group[0]
    if len(group) == 1 and not _is_whole_line(text, first):
        return
    before = text[max(0, first.start() - _MOST_APART) : first.start()]
    if len(group) > _LONGEST_GROUP or first[0].startswith(_OF_FILES):
        return
    # A certificate is public, and tells what a handshake failed on.
    if _ANY_BEGIN.search(before) is not None and b"PRIVATE" not in before:
        return
    yield from (match.span() for match in group)
    yield from _beside(text, first, -1)
    yield from _beside(text, group[-1], 1)


def _is_whole_line(text: bytes, match: re.Match[bytes]) -> bool:
    """Whether a line of `text` is nothing but this, at a width that writers of keys use."""
    before, _, after = _around(text, match)
    return len(match[0]) in _WIDTHS and not (before + after).strip(b" \t\r'\"`,>|\\")


def _around(text: bytes, match: re.Match[bytes]) -> tuple[bytes, int, bytes]:
    """What stands before a word on its line, where that line begins, and what stands after it.

    At most as much as before and after the lines of a key.
    """
    start = text.rfind(b"\n", max(0, match.start() - _MOST_APART), match.start()) + 1
    start = start or max(0, match.start() - _MOST_APART)
    after = text[match.end() : match.end() + _MOST_APART].partition(b"\n")[0]
    return text[start : match.start()], start, after


def _beside(text: bytes, match: re.Match[bytes], step: int) -> Iterator[Span]:
    """A shorter line right before or after the group: the rest of one that was cut, or the last."""
    before, start, after = _around(text, match)
    if step > 0:
        first = match.end() + len(after) + 1
        line = text[first : first + _MOST_APART].partition(b"\n")[0]
    else:
        line = text[max(0, start - 1 - _MOST_APART) : max(0, start - 1)].rpartition(b"\n")[2]
        first = start - 1 - len(line)
    word = _last_word(line)
    if (
        word is None
        or len(word[0]) >= len(match[0])
        or _shape(line[: word.start()]) != _shape(before)
    ):
        return
    # Base64 comes in fours. `end` is a word, and too short to tell anything of a key.
    if len(word[0]) >= _SHORTEST_REST or len(word[0]) % 4 == 0:
        yield first + word.start(), first + word.end()

# SPDX-License-Identifier: Apache-2.0
"""Pure. Where private keys stand in a text: whole ones, cut ones, and ones whose lines have prefixes.

A key is many lines, and others may cut a text, stamp its lines, or write it as one line with escapes.
Its lines are base64 of one width. Texts are cut so that no piece of a secret stays that nobody
recognises any more: only a whole one is known by its form or its value.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate

from ci_doctor.system.secrets.spans import Span, blanked, through_colours, to_bytes

# A line's end as text shows it, escaped once or several times.
_ESCAPED = re.compile(
    rb"\\{1,8}(?:r\\{1,8})?[nr]|\\{1,8}u000[aAdD]|%(?:25){0,4}0[AaDd]|&#(?:10|13|x[aAdD]);"
)
_WORD = re.compile(rb"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/]{1,}={0,3}(?![A-Za-z0-9+/=_-])")
# Without a mark: lines of one of the widths at which base64 is broken, two of them or more.
# What stands beside a path's part is none.
_WIDE = re.compile(
    rb"(?<![A-Za-z0-9+/_.%@-])[A-Za-z0-9+/]{56,80}={0,2}(?![A-Za-z0-9+/=_%?@-]|\.(?!\.))"
)
_CAPITALS = bytes(range(65, 91))
_SMALL = bytes(range(97, 123))
_DIGITS = bytes(range(48, 58))
# An ellipsis too: pytest ends so what it leaves out.
_CLOSING = b" \t\r'\"`,;+)]}>|\\." + "…".encode()
# More lines are a file, and so is what begins as gzip, PNG, JPEG, ZIP and GIF do.
_LONGEST_GROUP = 160
_OF_FILES = (b"H4sI", b"iVBORw0KGgo", b"/9j/", b"UEsDB", b"R0lGOD")
_ANY_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{1,40}-----")
_MOST_APART = 200
_MOST_BETWEEN = 3
_NUMBER = re.compile(rb"\d+")
_WIDTHS = frozenset({64, 70, 72, 76})
FULL = 16
_SHORTEST_REST = 8


def wide_spans(content: bytes) -> Iterator[Span]:
    """Lines of one width that only random base64 has; a certificate's stay."""
    if not may_hold_lines(content):
        return
    # An escape ends with a letter that the next line's word seems to begin with.
    text = flat(content)
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


def may_hold_lines(content: bytes) -> bool:
    """Whether `wide_spans` could find something in `content`; never false if it does."""
    return _WIDE.search(content) is not None or (b"%0" in content or b"%250" in content)


def _belong(text: bytes, one: re.Match[bytes], next_: re.Match[bytes]) -> bool:
    """Whether both are lines of one text: as wide, and on neighbouring lines or side by side."""
    if len(one[0]) != len(next_[0]) or next_.start() - one.end() > _MOST_APART:
        return False
    return text.count(b"\n", one.end(), next_.start()) <= _MOST_BETWEEN


def _group_spans(text: bytes, group: list[re.Match[bytes]]) -> Iterator[Span]:
    first = group[0]
    if len(group) == 1 and not _ends_line(text, first):
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


def _ends_line(text: bytes, match: re.Match[bytes]) -> bool:
    """Whether a line of `text` ends with this, at a width at which keys are broken."""
    _, _, after = _around(text, match)
    return len(match[0]) in _WIDTHS and not after.strip(_CLOSING)


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
        lines = text[first : first + _MOST_APART].split(b"\n")
    else:
        lines = text[max(0, start - 1 - _MOST_APART) : max(0, start - 1)].split(b"\n")[::-1]
        first = start - 1
    for line in lines[:_MOST_BETWEEN]:
        position = first if step > 0 else first - len(line)
        first += step * (len(line) + 1)
        # Between quoted lines stands what closes one and opens the next.
        if not line.strip(_CLOSING):
            continue
        word = last_word(line)
        if word is not None and _may_be_rest(line, word, before, len(match[0])):
            yield position + word.start(), position + word.end()
        return


def _may_be_rest(line: bytes, word: re.Match[bytes], before: bytes, width: int) -> bool:
    """Whether `word` is the rest of a text with lines of this width, and `before` before each."""
    if len(word[0]) >= width:
        return False
    own = line[: word.start()]
    # Where only one of the two stands behind a sentence, it must look random by itself.
    if shape(own) != shape(before) and (own.strip(_CLOSING) or not _is_random(word[0])):
        return False
    # Base64 comes in fours. `end` is a word, and too short to tell anything of a key.
    return len(word[0]) >= _SHORTEST_REST or len(word[0]) % 4 == 0


def last_word(line: bytes) -> re.Match[bytes] | None:
    """The word of base64 with which `line` ends, but for quotes and brackets around it."""
    last = None
    end = len(line.rstrip(_CLOSING))
    for match in _WORD.finditer(line, max(0, end - 400), end):
        last = match
    return None if last is None or last.end() != end else last


def shape(before: bytes) -> bytes:
    """What stands before a word, whatever time it tells."""
    return _NUMBER.sub(b"0", before)


def is_full(word: bytes) -> bool:
    """Whether `word` is long and random enough for a line of a key: no path or name is."""
    return len(word) >= FULL and _is_random(word)


def _is_random(word: bytes) -> bool:
    """Whether `word` has capital letters, small ones and digits, as many as base64 of anything has."""
    least = len(word) // 8
    kinds = (_CAPITALS, _SMALL)
    # A path of words has few capitals.
    if any(len(word) - len(word.translate(None, kind)) < max(1, least) for kind in kinds):
        return False
    return len(word) - len(word.translate(None, _DIGITS)) >= max(1, least // 4)


def flat(content: bytes) -> bytes:
    """`content` of the same length, with line ends for escaped ones."""
    if b"\\" in content or b"%" in content or b"&#" in content:
        content = _ESCAPED.sub(lambda match: b" " * (len(match[0]) - 1) + b"\n", content)
    return content


# Bytes from the first line of a key to its last one, with what a log puts before each line.
LONGEST_KEY = 32_768
_MOST_LINES = 400
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
    found = list(_WORD.finditer(rest))
    if any(is_full(word[0]) for word in found):
        yield from ((base + word.start(), base + word.end()) for word in found)


# A longer word is no token but a blob, whose beginning tells its form.
_LONGEST_WORD = 200


def first_words(text: str, most: int) -> str:
    """The start of `text`, at most `most` characters: a word is not cut, unless it is very long."""
    if len(text) <= most:
        return text
    return _cut(keyless(text[: most + LONGEST_KEY]), most)


def shortened_words(text: str, most: int) -> str:
    """`text`, or its first words and an ellipsis."""
    return text if len(text) <= most else f"{first_words(text, most)}…"


def last_words(text: str, most: int) -> str:
    """The same of the end of `text`."""
    if len(text) <= most:
        return text
    return _cut(keyless(text[-most - LONGEST_KEY :])[::-1], most)[::-1]


def _cut(text: str, most: int) -> str:
    end = most
    while (
        end > most - _LONGEST_WORD
        and end > 0
        and not (text[end].isspace() or text[end - 1].isspace())
    ):
        end -= 1
    if end in {0, most - _LONGEST_WORD}:
        end = most
    return text[:end]


def keyless(text: str) -> str:
    """`text` without the private keys that it holds, of the same length in bytes."""
    content = to_bytes(text)
    if not may_hold_key(content):
        return text
    return without_key_lines(content).decode("utf-8", "surrogatepass")


class StreamedKeys:
    """Hides private keys in a text that comes in pieces, each of whole lines."""

    def __init__(self) -> None:
        # What came before, as long as the first or last line of a key is in it.
        self._before = b""

    def hide(self, piece: str) -> str:
        """`piece` without the lines of a key that began in it or in an earlier one."""
        content = to_bytes(piece)
        if not self._before and not may_mark_key(content):
            return piece
        whole = self._before + content
        hidden = without_keys(whole)[len(self._before) :]
        context = (whole + b"\n")[-LONGEST_KEY:]
        self._before = context if may_mark_key(context) else b""
        return hidden.decode("utf-8", "surrogatepass")

# SPDX-License-Identifier: Apache-2.0
"""Pure. Lines of base64 in a text: those of one width, as keys are written, and the words in them."""

import re
from collections.abc import Iterator

from ci_doctor.system.secrets.spans import Span

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
    if last is None or last.end() != end:
        return None
    return last


def words(text: bytes) -> list[re.Match[bytes]]:
    """The words of base64 in `text`."""
    return list(_WORD.finditer(text))


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

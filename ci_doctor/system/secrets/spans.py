# SPDX-License-Identifier: Apache-2.0
"""Pure. Places of secrets in a text, the text without what stands there, and how a known value is written.

Its lines stay as many. Pieces of known secrets are found too: of one that was wrapped, cut, or
stamped line by line.
"""

import base64
import re
import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from urllib.parse import quote, quote_plus

import msgspec

Span = tuple[int, int]

PLACEHOLDER = "[redacted]"
_MARK = PLACEHOLDER.encode()
_COLOUR = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")  # ECMA-48 CSI
_COLOUR_IN_WORD = re.compile(rb"[\w+/=-](?:\x1b\[[0-?]{0,16}[@-~])+[\w+/=-]")


def merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Overlapping spans as one; `spans` come by their starts."""
    current: Span | None = None
    for start, stop in spans:
        if current is None:
            current = (start, stop)
        elif start < current[1]:
            current = (current[0], max(current[1], stop))
        else:
            yield current
            current = (start, stop)
    if current is not None:
        yield current


def in_place_of(secret: bytes) -> bytes:
    """What stands in place of `secret`: a mark on each of its lines, so that no later line moves."""
    return b"\n".join([_MARK] * (secret.count(b"\n") + 1))


def without(content: bytes, spans: Iterable[Span]) -> bytes:
    """`content` with a mark in place of each span; `spans` come by their starts."""
    return _replaced(content, spans, in_place_of)


def blanked(content: bytes, spans: Iterable[Span]) -> bytes:
    """`content` of the same length: of each span its first line is a mark, the others are blank."""

    def sign(secret: bytes) -> bytes:
        first, *others = secret.split(b"\n")
        mark = b"*" * len(first) if len(first) < len(_MARK) else _MARK.ljust(len(first))
        return b"\n".join([mark, *(b" " * len(each) for each in others)])

    return _replaced(content, spans, sign)


def _replaced(content: bytes, spans: Iterable[Span], sign: Callable[[bytes], bytes]) -> bytes:
    pieces: list[bytes] = []
    end = 0
    for start, stop in merged(spans):
        pieces += (content[end:start], sign(content[start:stop]))
        end = stop
    return b"".join((*pieces, content[end:])) if pieces else content


def through_colours(content: bytes, find: Callable[[bytes], Iterable[Span]]) -> Iterator[Span]:
    """What `find` finds in `content` without its colours, as places in `content`."""
    places: list[int] = []
    removed: list[int] = []
    pieces: list[bytes] = []
    end = total = 0
    for match in _COLOUR.finditer(content):
        pieces.append(content[end : match.start()])
        places.append(match.start() - total)
        end = match.end()
        total += end - match.start()
        removed.append(total)
    pieces.append(content[end:])
    for start, stop in find(b"".join(pieces)):
        last = bisect_right(places, stop - 1)
        first = bisect_right(places, start)
        yield (
            start + (removed[first - 1] if first else 0),
            stop + (removed[last - 1] if last else 0),
        )


def has_colour_in_word(content: bytes) -> bool:
    """Whether a colour begins or ends inside of a word of `content`."""
    return b"\x1b" in content and _COLOUR_IN_WORD.search(content) is not None


SHORTEST_BYTES = 6  # the agent's own limit
_SHORTEST_LINE = 16  # of a key in several lines; shorter lines ("-----") are in many texts
_SHORTEST_BASE64 = 8
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_SHELL_SPECIAL = re.compile(r"([^\w@%+=:,./-])")
# Values of settings whose name only resembles a secret's. To hide them everywhere would make a
# report unreadable.
COMMON = frozenset(
    {
        "absent",
        "always",
        "anonymous",
        "default",
        "disable",
        "disabled",
        "enable",
        "enabled",
        "example",
        "localhost",
        "missing",
        "nothing",
        "optional",
        "python",
        "required",
        "system",
        "unknown",
        "unlimited",
        PLACEHOLDER,
        "redacted",
        "redacted]",
        "[redacted",
    }
)


def written_forms(value: str) -> Iterator[bytes]:
    """The ways in which `value` may stand in a text, each of at least six bytes.

    As it is; URL-encoded; escaped for JSON, Python and shells; base64 at any offset; and each
    long line of it. A short or common value has none.
    """
    value = value.strip()
    if len(to_bytes(value)) < SHORTEST_BYTES or value.lower() in COMMON:
        return
    distinct = dict.fromkeys((*_texts(value), *_base64_forms(value)))
    for form in distinct:
        if len(form) >= SHORTEST_BYTES:
            yield form


def to_bytes(text: str) -> bytes:
    """UTF-8; lone surrogates pass, since a variable's bytes need not be UTF-8 (PEP 383)."""
    return text.encode("utf-8", "surrogatepass")


def _texts(value: str) -> Iterator[bytes]:
    raw = to_bytes(value)
    yield raw
    for line in value.splitlines():
        if len(line.strip()) >= _SHORTEST_LINE:
            yield to_bytes(line.strip())
    yield to_bytes(value.replace("\n", "\r\n"))
    yield quote(raw, safe="").encode()
    yield quote(raw).encode()
    yield quote_plus(raw).encode()
    yield to_bytes(repr(value)[1:-1])
    # Three ways to quote for a shell: shlex's, a closed and reopened quote, backslashes.
    if "'" in value:
        yield to_bytes(shlex.quote(value)[1:-1])
    yield to_bytes(value.replace("'", "'\\''"))
    yield to_bytes(_SHELL_SPECIAL.sub(r"\\\1", value))
    yield msgspec.json.encode(raw.decode(errors="replace"))[1:-1]
    if not value.isascii():
        import json

        yield ascii(value)[1:-1].encode()
        yield json.dumps(value)[1:-1].encode()


def _base64_forms(value: str) -> Iterator[bytes]:
    raw = to_bytes(value)
    for offset in range(3):
        # The characters of base64 that `raw` alone decides, if it begins at byte `offset` of three.
        #
        # Those at either end also hold bits of the neighbours, as of `user:` before a password.
        first = -(-offset * 4 // 3)
        last = (offset + len(raw)) * 8 // 6
        core = base64.b64encode(bytes(offset) + raw)[first:last]
        if len(core) >= _SHORTEST_BASE64:
            yield core
            yield core.translate(_URL_SAFE)


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

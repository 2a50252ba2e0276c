# SPDX-License-Identifier: Apache-2.0
"""Pure. Places of secrets in a text, and the text without what stands there; its lines stay as many."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

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
    pieces: list[bytes] = []
    end = 0
    for start, stop in merged(spans):
        pieces.append(content[end:start])
        pieces.append(in_place_of(content[start:stop]))
        end = stop
    if not pieces:
        return content
    pieces.append(content[end:])
    return b"".join(pieces)


def blanked(content: bytes, spans: Iterable[Span]) -> bytes:
    """`content` of the same length: of each span its first line is a mark, the others are blank."""
    pieces: list[bytes] = []
    end = 0
    for start, stop in merged(spans):
        first, *others = content[start:stop].split(b"\n")
        pieces.append(content[end:start])
        pieces.append(b"\n".join([_same_length(first), *(b" " * len(each) for each in others)]))
        end = stop
    pieces.append(content[end:])
    return b"".join(pieces)


def _same_length(secret: bytes) -> bytes:
    if len(secret) < len(_MARK):
        return b"*" * len(secret)
    return _MARK.ljust(len(secret))


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

# SPDX-License-Identifier: Apache-2.0
"""Pure. Places of secrets in a text, and the text without what stands there; its lines stay as many."""

from collections.abc import Iterable, Iterator

Span = tuple[int, int]

PLACEHOLDER = "[redacted]"
_MARK = PLACEHOLDER.encode()


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

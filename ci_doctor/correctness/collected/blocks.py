# SPDX-License-Identifier: Apache-2.0
"""LMCache's text format: `{id}:`, then the lines of the answer, block after block. Pure.

The format is ambiguous: an answer may hold a line that looks like the beginning of a block. The
rule: `{id}:` begins a block if the id has the same shape as the id in the first line of the file.
The shape of `chatcmpl-WJidmXp_0` is `chatcmpl-`, seven letters or digits, `_`, digits. Two kinds of
file are refused: one that does not begin with an id, and one in which an id begins two blocks.
"""

import re
from collections.abc import Iterable, Iterator

_PARTS = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
# An id holds a digit, a dash or an underscore: `Answer:` is prose.
_FIRST = re.compile(r"(?=[^\s:]*[-_0-9])[^\s:]+")
# What OpenAI and vLLM put before the random part.
_WORDS = {"chatcmpl", "cmpl", "resp", "req", "request"}


class AmbiguousError(ValueError):
    """The blocks of a file cannot be told apart; the text says why."""


def shape(identity: str) -> str:
    """The regular expression of ids that look like `identity`."""
    return "".join(_part(part) for part in _PARTS.findall(identity))


def _part(part: str) -> str:
    if part in _WORDS or not part.isalnum():
        return re.escape(part)
    # Counters grow by a digit; a random part keeps its length.
    if part.isdigit():
        return "[0-9]+"
    return f"[A-Za-z0-9]{{{len(part)}}}"


def blocks(lines: Iterable[bytes]) -> Iterator[tuple[str, int, int]]:
    """Each block as its id, and the offset and the length of its content in bytes.

    The newline that ends the content does not count. Raises AmbiguousError.
    """
    begins: re.Pattern[bytes] | None = None
    ids: set[bytes] = set()
    identity = b""
    begin = 0
    offset = 0
    newline = True
    for line in lines:
        if begins is None:
            begins = _beginning(line)
        match = begins.fullmatch(line)
        if match:
            if identity:
                yield identity.decode(), begin, max(0, offset - begin - 1)
            identity = _fresh(match[1], ids)
            begin = offset + len(line)
        offset += len(line)
        newline = line.endswith(b"\n")
    if identity:
        # The writer ends every block with a newline. Without one, all of the rest is the answer.
        yield identity.decode(), begin, max(0, offset - begin - newline)


def _beginning(line: bytes) -> re.Pattern[bytes]:
    """The pattern of lines that begin a block, by the first line of the file."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    identity = text.removesuffix(":")
    if identity == text or not _FIRST.fullmatch(identity):
        # Cut: the first line may be a whole answer of a file in another format.
        raise AmbiguousError(f"the first line is not `id:` but {text[:60]!r}")
    pattern = shape(identity).encode()
    return re.compile(b"(" + pattern + rb"):\r?\n?")


def _fresh(identity: bytes, ids: set[bytes]) -> bytes:
    if identity in ids:
        raise AmbiguousError(f"two lines `{identity.decode()}:` look like the beginning of a block")
    ids.add(identity)
    return identity

# SPDX-License-Identifier: Apache-2.0
"""LMCache's text format: `{id}:`, then the answer in as many lines as it has, one such block after another. Pure.

The format is ambiguous: an answer may hold a line that looks like the beginning of a block. The rule: a line begins a
block where it is `{id}:` and the id has the same shape as the one in the first line of the file. The shape of
`chatcmpl-WJidmXp_0` is `chatcmpl-`, seven letters or digits, `_`, digits. A file whose blocks cannot be told apart even
so is refused: one that does not begin with an id, or where an id begins two blocks.
"""

import re
from collections.abc import Iterable, Iterator

_PARTS = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
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
    return "[0-9]+" if part.isdigit() else f"[A-Za-z0-9]{{{len(part)}}}"


def blocks(lines: Iterable[bytes]) -> Iterator[tuple[str, int, int]]:
    """Each block as its id, and the offset and the length of its content in bytes, without the newline that ends it.

    Raises AmbiguousError.
    """
    begins: re.Pattern[bytes] | None = None
    seen: set[bytes] = set()
    current, begin, at, ended = b"", 0, 0, True
    for line in lines:
        begins = begins or _beginning(line)
        if found := begins.fullmatch(line):
            if current:
                yield current.decode(), begin, max(0, at - begin - 1)
            current, begin = _fresh(found[1], seen), at + len(line)
        at, ended = at + len(line), line.endswith(b"\n")
    if current:
        # The writer ends every block with a newline; without one, all of the rest is the answer.
        yield current.decode(), begin, max(0, at - begin - ended)


def _beginning(line: bytes) -> re.Pattern[bytes]:
    """What the lines look like that begin a block, by the first line of the file."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    if not text.endswith(":") or not _FIRST.fullmatch(text[:-1]):
        raise AmbiguousError(f"the first line is not `id:` but {text[:60]!r}")
    return re.compile(b"(" + shape(text[:-1]).encode() + rb"):\r?\n?")


def _fresh(identity: bytes, seen: set[bytes]) -> bytes:
    if identity in seen:
        raise AmbiguousError(f"two lines `{identity.decode()}:` look like the beginning of a block")
    seen.add(identity)
    return identity

# SPDX-License-Identifier: Apache-2.0
"""Pure. Cuts texts so that no piece of a secret stays that nobody recognises any more.

Secrets are taken out of a report later, and only a whole one is known by its form or its value.
"""

from ci_doctor.system.secrets.private_keys import (
    LONGEST_KEY,
    may_hold_key,
    may_mark_key,
    without_key_lines,
    without_keys,
)
from ci_doctor.system.secrets.written_forms import to_bytes

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

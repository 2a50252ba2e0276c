# SPDX-License-Identifier: Apache-2.0
"""Pure. Names from evidence files -> text that both databases take, and an index of theirs too."""

import hashlib
from typing import Final

from ci_doctor.render.safe_text import printable

# An entry of PostgreSQL's B-tree has 2,704 bytes at most, and a test has two names of up to four
# bytes a character.
_MOST: Final = 300


def stored_text(text: str) -> str:
    """`text` without control characters, in at most 300 characters.

    A longer one ends with a part of its hash, so that two long ones stay different.
    """
    if len(text) <= _MOST and text.isprintable():
        return text
    cleaned = printable(text)
    if len(cleaned) <= _MOST:
        return cleaned
    digest = hashlib.sha256(cleaned.encode()).hexdigest()[:16]
    return f"{cleaned[: _MOST - 17]}…{digest}"


def stored_name(text: str | None) -> str | None:
    """The same for what may be unknown."""
    return None if text is None else stored_text(text)

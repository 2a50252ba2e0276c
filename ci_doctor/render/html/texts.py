# SPDX-License-Identifier: Apache-2.0
"""Pure. Texts in the words of the page."""

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

_QUOTED = re.compile(r"`([^`\n]+)`")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")
_MOST_OF_A_VALUE = 300


class Words(Struct, frozen=True):
    """A piece of a sentence, `code` if it stood in backticks."""

    text: str
    code: bool


def prose(sentence: str) -> Iterator[Words]:
    """`sentence` in pieces: what stands in backticks is code."""
    # split() with a group returns what is between the matches and the groups in turn.
    for number, text in enumerate(_QUOTED.split(sentence)):
        is_code = number % 2 == 1
        if text:
            yield Words(text, code=is_code)


def clipped(text: str, most: int) -> str:
    """`text`, or its first `most` characters and how many are missing."""
    missing = len(text) - most
    if missing <= 0:
        return text
    return f"{text[:most]}… ({missing:,} more characters)"


def clipped_before(text: str, most: int) -> str:
    """`text`, or its last `most` characters and how many are missing."""
    missing = len(text) - most
    if missing <= 0:
        return text
    return f"({missing:,} characters before) …{text[-most:]}"


def closed(sentence: str) -> str:
    """`sentence` with a capital and a full stop."""
    text = sentence.strip()
    if not text:
        return text
    # Not capitalize(), which makes the rest of the sentence small: names keep their letters.
    capital = text[0].upper() + text[1:]
    if capital[-1] in ".!?":
        return capital
    return f"{capital}."


def day(instant: str) -> str:
    """`2026-11-03 09:30:00 UTC`; text of any other form as it is."""
    match = _INSTANT.fullmatch(instant)
    if match is None:
        return instant
    return f"{match[1]} {match[2]} UTC"


def value(fact: Any) -> str:
    """The value of a fact in one line: text as it is, `unknown` for None, anything else as JSON."""
    if fact is None:
        return "unknown"
    if not isinstance(fact, str):
        fact = json.dumps(fact, ensure_ascii=False, sort_keys=True)
    return clipped(fact, _MOST_OF_A_VALUE)

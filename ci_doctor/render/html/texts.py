# SPDX-License-Identifier: Apache-2.0
"""Figures and texts in the words of the page. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

_QUOTED = re.compile(r"`([^`\n]+)`")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")


class Words(Struct, frozen=True):
    """A piece of a sentence, `code` where it stood in backticks."""

    text: str
    code: bool


def prose(sentence: str) -> Iterator[Words]:
    """`sentence` in pieces: what stands in backticks is code."""
    for number, text in enumerate(_QUOTED.split(sentence)):
        if text:
            yield Words(text, code=number % 2 == 1)


def clipped(text: str, most: int) -> str:
    """`text`, or its first `most` characters and how many are missing."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def clipped_before(text: str, most: int) -> str:
    """`text`, or its last `most` characters and how many are missing."""
    return (
        text if len(text) <= most else f"({len(text) - most:,} characters before) …{text[-most:]}"
    )


def closed(sentence: str) -> str:
    """`sentence` with a capital and a full stop."""
    text = sentence.strip()
    return text if not text else text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def day(instant: str) -> str:
    """`2026-11-03 09:30:00 UTC`; text of any other form as it is."""
    match = _INSTANT.fullmatch(instant)
    return f"{match[1]} {match[2]} UTC" if match else instant


def figure(number: float | None) -> str:
    """A figure as it is read; a dash for an unknown one."""
    return "–" if number is None else f"{number:.6g}"


def short(number: float) -> str:
    """A probability: three digits of it."""
    return f"{number:.3g}"


def percent(share: float) -> str:
    """`45 %` for 0.45."""
    return f"{100 * share:.3g} %"


def value(found: Any) -> str:
    """A value of a fact in one line: text as it is, `unknown` for None, anything else as JSON."""
    if found is None:
        return "unknown"
    return clipped(
        found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, sort_keys=True),
        300,
    )

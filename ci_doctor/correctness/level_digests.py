# SPDX-License-Identifier: Apache-2.0
"""The digests of one answer at each level. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.comparison import AnswerLevel
from ci_doctor.load.answer_items import parts
from ci_doctor.load.canonical import digest


class LevelDigests(Struct, frozen=True, kw_only=True):
    """SHA-256 of the words, and of words and tokens together."""

    words: str
    tokens: str


def level_digests(output: Mapping[str, Any], whole: str | None = None) -> LevelDigests:
    """The digests of a canonical output; `whole` is its own digest, if it is known.

    An answer of numbers alone (a vector) has no other words: at each level it is all that it holds.
    """
    divided = parts(output)
    if divided.wordless:
        own = whole or digest(output)
        return LevelDigests(words=own, tokens=own)
    return LevelDigests(words=digest(divided.words), tokens=digest([divided.words, divided.tokens]))


def digest_at(output: Mapping[str, Any], level: AnswerLevel) -> str:
    """The digest of a canonical output at one level."""
    if level is AnswerLevel.NUMBERS:
        return digest(output)
    digests = level_digests(output)
    return digests.words if level is AnswerLevel.WORDS else digests.tokens

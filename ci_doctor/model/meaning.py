# SPDX-License-Identifier: Apache-2.0
"""Pure. What a verdict or an exit code means, in two sentences."""

from msgspec import Struct


class Meaning(Struct, frozen=True):
    """`meaning` and `remedy` are sentences for a reader who sees the word for the first time."""

    meaning: str
    remedy: str

# SPDX-License-Identifier: Apache-2.0
"""What a rule, a verdict or an exit code means, in two sentences. Pure."""

from msgspec import Struct


class Meaning(Struct, frozen=True):
    """`meaning` and `remedy` are sentences for a reader who sees the rule's id for the first time."""

    meaning: str
    remedy: str

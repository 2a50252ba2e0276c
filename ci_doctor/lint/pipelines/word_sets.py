# SPDX-License-Identifier: Apache-2.0
"""Pure. Tables of words, written as text."""


def words(text: str) -> frozenset[str]:
    """The words of a text, which blanks separate."""
    return frozenset(text.split())

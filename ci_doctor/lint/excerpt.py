# SPDX-License-Identifier: Apache-2.0
"""Pure. The start of a line for a report, cut between two words.

Secrets are taken out of a report later, and only a whole one is recognised: half a token would stay.
"""

from typing import Final

LONGEST_EXCERPT: Final = 200
_MORE: Final = "…"


def excerpt_of(line: str, most: int = LONGEST_EXCERPT) -> str:
    """`line` without the spaces around it: its words up to `most` characters, then `…` for the rest."""
    text = line.strip()
    if len(text) <= most:
        return text
    end = most
    while end > 0 and not text[end].isspace():
        end -= 1
    return f"{text[:end].rstrip()} {_MORE}".lstrip()

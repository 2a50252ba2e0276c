# SPDX-License-Identifier: Apache-2.0
"""Pure. A pattern-list of ssh_config(5): `*` and `?`, commas between patterns, `!` for exceptions."""

import re


def matches(text: str, patterns: str) -> bool:
    """Whether a pattern of the list matches `text`, and none with `!` before it does."""
    is_named = False
    for pattern in patterns.split(","):
        if _matches_one(text, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            is_named = True
    return is_named


def _matches_one(text: str, pattern: str) -> bool:
    parts = re.split(r"([*?])", pattern)
    wild = {"*": ".*", "?": "."}
    expression = "".join(wild.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(expression, text, re.DOTALL) is not None

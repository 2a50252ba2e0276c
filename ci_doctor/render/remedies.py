# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a remedy is a sentence to read or a command to paste."""

import re


def is_sentence(remedy: str) -> bool:
    """True for prose: it quotes its commands in backticks, or ends with a full stop.

    Anything else is a command: it is pasted whole and never broken.
    """
    # `ruff check .` ends with a full stop, too, but not with a word.
    return "`" in remedy or re.search(r"\w\.$", remedy) is not None

# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether the last words of a log sound like success: no format is known, so words count."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

# In most tools' summaries: `3 passed`, `0 errors`, `done`, `bye`.
_SUCCESS: Final = re.compile(
    r"(?i)\b(?:success(?:ful|fully)?|succeeded|passed|pass|ok|done|completed?|finished|clean"
    r"|up[- ]to[- ]date|no (?:errors?|problems?|issues?|failures?)|bye|shut(?:ting)? ?down"
    r"|(?:errors?|failures?|failed)[:=] *0|0 (?:errors?|failures?|failed|problems?))\b"
)
_NOTHING_FAILED: Final = re.compile(
    r"(?i)\b(?:no|0|zero) (?:errors?|problems?|issues?|failures?|failed)\b"
    r"|\b(?:errors?|failures?|failed|fail)[:= ]+0\b"
)
_FAILURE: Final = re.compile(
    r"(?i)error|fail|exception|traceback|abort|fatal|killed|panic|denied|refused|cannot|can't"
    r"|could ?n[o']t|unable|not found|no such|invalid|undefined|unexpected|exit(?:ed)? (?:code|status"
    r"|with)(?: code| status)?:? [1-9]|timed? ?out|✗|✖|❌"
)
_STOP: Final = re.compile(
    r"(?i)\b(?:shut(?:ting)? ?down|shutdown|(?:stopping|finished|terminating) (?:server|parent|worker|reloader)"
    r"|worker exiting|handling signal|closing (?:connections|sockets))\b"
)
_LINES: Final = 12


def quiet_lines(texts: Sequence[str]) -> int:
    """How many of the last lines with words speak of no failure.

    Those of a server that stops in order do not count: it stops so after a failure as well.
    """
    count = 0
    for text in reversed(texts):
        if not any(letter.isalpha() for letter in text) or _STOP.search(text) is not None:
            continue
        if _FAILURE.search(_NOTHING_FAILED.sub("", text)) is not None:
            break
        count += 1
    return count


def sounds_like_success(texts: Iterable[str]) -> bool:
    """Whether one of the last 12 lines with words speaks of success, and none of a failure."""
    last = [text for text in texts if any(letter.isalpha() for letter in text)][-_LINES:]
    is_success = False
    for text in last:
        if _FAILURE.search(_NOTHING_FAILED.sub("", text)) is not None:
            return False
        if _SUCCESS.search(text) is not None:
            is_success = True
    return is_success

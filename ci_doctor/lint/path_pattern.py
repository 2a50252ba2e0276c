# SPDX-License-Identifier: Apache-2.0
"""Pure. Globs over paths: `*` stays in one directory, `**` crosses them."""

import re
from functools import lru_cache


def matches(pattern: str, file: str) -> bool:
    """Whether `file` (relative, with `/`) matches `pattern`.

    `vendor/**` is all below a directory, `**/x.sh` a name in any of them. A pattern without a slash
    is looked for in each directory, as git does it.
    """
    return _regex(pattern).fullmatch(file) is not None


@lru_cache(maxsize=256)
def _regex(pattern: str) -> re.Pattern[str]:
    anchored = pattern if "/" in pattern.rstrip("/") else f"**/{pattern}"
    if anchored.endswith("/"):
        anchored += "**"
    # Longest first: `**/` is also no directory at all.
    pieces = re.findall(r"\*\*/|\*+|\?|\[[^\]/]+\]|.", anchored.lstrip("/"), re.DOTALL)
    translated = "".join(map(_translated, pieces))
    try:
        return re.compile(translated, re.DOTALL)
    # `[z-a]`: such a range is a name of these characters.
    except re.error:
        return re.compile(re.escape(pattern))


def _translated(piece: str) -> str:
    if piece == "**/":
        return "(?:[^/]+/)*"
    if piece.startswith("**"):
        return ".*"
    if piece == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if len(piece) > 1:
        body = piece[1:-1].replace("\\", "\\\\")
        return f"[^{body[1:]}]" if body.startswith("!") else f"[{body}]"
    return re.escape(piece)

# SPDX-License-Identifier: Apache-2.0
"""Pure. Links into the pages made from code, for the site alone: git does not have these pages, so no committed page links to one."""

import posixpath
import re
from collections.abc import Mapping
from typing import Final

# What is not `named` stays as it is: a fenced block, a comment, a heading, a link.
_PART: Final = re.compile(
    r"""
    ^[ ]*(?P<fence>`{3,}|~{3,}).*?^[ ]*(?P=fence)[`~]*[ ]*$
    | <!--.*?-->
    | ^\#[^\n]*$
    | \[[^]]*\]\([^)]*\)
    | (?P<named> `[^`\n]+(?:\n[^`\n]+)?` | (?<![*\w])\*[^*\n]+(?:\n[^*\n]+)?\*(?![*\w]) )
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


def with_links(text: str, page: str, places: Mapping[str, str]) -> str:
    """`text` of `page`, in which each of `places` (Markdown of a name: address from the root) is a link."""

    def linked(part: re.Match[str]) -> str:
        place = places.get(" ".join((part["named"] or "").split()))
        if place is None or place == page:
            return part[0]
        return f"[{part[0]}]({posixpath.relpath(place, posixpath.dirname(page) or '.')})"

    return _PART.sub(linked, text)

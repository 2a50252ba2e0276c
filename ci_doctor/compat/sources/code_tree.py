# SPDX-License-Identifier: Apache-2.0
"""Pure. A tree of source files, wherever it lies: names, and a way to read each."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

# A generated table of that size holds no call, and takes seconds to parse.
LARGEST_SOURCE = 4 * 2**20


class GitPlace(Struct, frozen=True, kw_only=True):
    """A commit of a repository. `below` is the directory in it that is the tree; empty for all of it."""

    repository: Path
    revision: str
    below: str = ""


class CodeTree(Struct, frozen=True, kw_only=True, eq=False):
    """Files by their names below the tree, with `/` between parts.

    label: how a person calls it. read: the bytes of a name; raises OSError. distribution and
    version: from its metadata, if it has any. is_built: no build adds modules to it. digest: the
    same for the same content, if that is known. place: where git knows its history.
    """

    label: str
    names: frozenset[str]
    read: Callable[[str], bytes]
    distribution: str | None = None
    version: str | None = None
    is_built: bool = True
    digest: str | None = None
    place: GitPlace | None = None

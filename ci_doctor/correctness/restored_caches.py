# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: each start gets a copy of its own of the restored compile caches."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

Rewrite = Callable[[str, bytes], bytes]


class CopiedCache(Struct, frozen=True, kw_only=True):
    """A restored cache: its tree, and below which variable's directory a start looks for it.

    rewrite: from the new root to what changes a file's content for it (path below the root and
    content); it gives None if no file of this cache changes.
    """

    variable: str
    subdirectory: str
    tree: Path
    rewrite: Callable[[str], Rewrite | None]


def copy_restored(trees: Iterable[CopiedCache], variables: Mapping[str, str]) -> None:
    """Copy each tree to where `variables` put its cache. Times stay. Raises OSError."""
    for each in trees:
        root = Path(variables[each.variable], each.subdirectory)
        shutil.copytree(each.tree, root, dirs_exist_ok=True)
        change = each.rewrite(str(root))
        if change is not None:
            _rewrite(root, change)


def _rewrite(root: Path, change: Rewrite) -> None:
    for path in root.rglob("*.json"):
        before = path.read_bytes()
        after = change(path.relative_to(root).as_posix(), before)
        if after != before:
            path.write_bytes(after)

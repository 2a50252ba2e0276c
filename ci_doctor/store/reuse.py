# SPDX-License-Identifier: Apache-2.0
"""Pure. Which files of a tree an earlier manifest holds already."""

from collections.abc import Iterable
from typing import Final

from ci_doctor.store.manifest import FileEntry, Manifest
from ci_doctor.store.trust.scopes import readable_packs
from ci_doctor.store.walk import TreeFile

# Below it a pack is mostly bytes that nobody needs, and its files are packed again.
_LEAST_USED: Final = 0.25


def reusable(
    files: Iterable[TreeFile], parent: Manifest | None, scope: str
) -> dict[str, FileEntry]:
    """By path: entries of `parent` with the size and the time (ns) of the file that is there now.

    An entry is left out if its bytes lie in a scope that readers of `scope` do not trust, or in a
    pack of which less than a quarter would still be used.
    """
    if parent is None:
        return {}
    known = {entry.path: entry for entry in parent.files}
    same = {}
    for file in files:
        entry = known.get(file.path)
        if entry is None or (entry.bytes, entry.mtime_ns) != (file.bytes, file.mtime_ns):
            continue
        same[file.path] = entry
    packs = _worthwhile_packs(same.values(), parent, readable_packs(scope))
    frames = parent.frames
    return {
        path: entry
        for path, entry in same.items()
        if all(frames[piece.frame].pack in packs for piece in entry.pieces)
    }


def _worthwhile_packs(
    entries: Iterable[FileEntry], parent: Manifest, scopes: frozenset[str]
) -> frozenset[int]:
    used = [0.0] * len(parent.packs)
    for entry in entries:
        for piece in entry.pieces:
            frame = parent.frames[piece.frame]
            used[frame.pack] += piece.bytes / frame.raw_bytes * frame.bytes
    return frozenset(
        index
        for index, pack in enumerate(parent.packs)
        if pack.scope in scopes and used[index] >= _LEAST_USED * pack.bytes
    )

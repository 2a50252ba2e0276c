# SPDX-License-Identifier: Apache-2.0
"""Reads the regular files of a directory tree, without following a link, once it is at rest."""

import os
import stat
import time
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Final

import msgspec

from ci_doctor.store.manifest import MOST_COMPONENTS, FileEntry, Manifest, path_fault
from ci_doctor.store.objects import StoreLimits
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.trust import readable_packs
from ci_doctor.system.files.access import is_own_name

# --- reads the regular files of a directory tree, without following a link anywhere in it ---

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A regular file as lstat(2) describes it; `path` is relative to the tree."""

    path: str
    bytes: int
    mode: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> "TreeFile":
        """The file at `path` with this status; its mode is 0755 if its owner may run it, else 0644."""
        return cls(
            path=path,
            bytes=status.st_size,
            mode=0o755 if status.st_mode & stat.S_IXUSR else 0o644,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
            inode=status.st_ino,
        )

    def is_same(self, status: os.stat_result) -> bool:
        """Whether `status` is of this file, unchanged: a change of its mode gives it another ctime."""
        return (
            status.st_ino == self.inode
            and status.st_ctime_ns == self.ctime_ns
            and status.st_mtime_ns == self.mtime_ns
            and status.st_size == self.bytes
        )


class WalkedTree(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a tree in order of their paths, and what is no file that can be kept, with reasons."""

    files: tuple[TreeFile, ...]
    skipped: tuple[tuple[str, str], ...]


def walk(root: int, exclude: Callable[[str], bool], limits: StoreLimits) -> WalkedTree:
    """The tree below the open directory `root`, without what `exclude` matches by relative path.

    Raises OSError if `root` itself cannot be read.
    """
    files: list[TreeFile] = []
    skipped: list[tuple[str, str]] = []
    fault = path_fault(limits)
    entries: list[tuple[str, TreeFile | str]] = []
    _gather(root, "", exclude, entries)
    entries.sort(key=itemgetter(0))
    for path, file in entries:
        reason = file if isinstance(file, str) else _too_large(file, limits) or fault(path)
        if reason is not None:
            skipped.append((os.fsencode(path).decode(errors="replace"), reason))
        elif not isinstance(file, str):
            files.append(file)
    return WalkedTree(files=tuple(files), skipped=tuple(skipped))


def _gather(
    folder: int,
    prefix: str,
    exclude: Callable[[str], bool],
    tree: list[tuple[str, TreeFile | str]],
) -> None:
    """Add each entry that is no directory with itself as a file, or the reason why it cannot be saved."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = prefix + entry.name
            if exclude(path) or is_own_name(entry.name):
                continue
            try:
                if not entry.is_dir(follow_symlinks=False):
                    tree.append((path, _file(path, entry.stat(follow_symlinks=False))))
                elif path.count("/") >= MOST_COMPONENTS:
                    tree.append((path, f"lies below more than {MOST_COMPONENTS} directories"))
                else:
                    descriptor = os.open(entry.name, _DIRECTORY, dir_fd=folder)
                    try:
                        _gather(descriptor, f"{path}/", exclude, tree)
                    finally:
                        os.close(descriptor)
            except FileNotFoundError:
                continue
            except OSError as error:
                tree.append((path, f"cannot be read: {error.strerror}"))


def _file(path: str, status: os.stat_result) -> TreeFile | str:
    """The file, or why it is none. A status itself would take 400 bytes of memory for each file."""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    return TreeFile.of(path, status)


def _too_large(file: TreeFile, limits: StoreLimits) -> str | None:
    if file.bytes > limits.file_bytes:
        return f"has {file.bytes} bytes, more than {limits.file_bytes}"
    return None


# --- waits until a tree has not changed for a moment, and compares two looks at it ---

# Well above the steps of a file system's times (10 ms at most on local ones): a file that is older
# when it is read cannot be written later without another time.
QUIET_NS: Final = 250_000_000
_MOST_S: Final = 3.0


def settled(
    look: Callable[[], WalkedTree], deadline: Deadline
) -> tuple[WalkedTree, frozenset[str]]:
    """A look at the tree, and the paths of files that were being written even at the end of a wait.

    It waits for as long as the newest change is younger than 0.25 s, and 3 s at most.
    """
    wait = Deadline(min(_MOST_S, deadline.left()))
    tree = look()
    while (young := _young(tree.files)) and wait.left() > 0:
        newest = max(file.ctime_ns for file in young)
        quiet_s = (newest + QUIET_NS - time.time_ns()) / 1e9
        time.sleep(min(max(quiet_s, 0.001), wait.left()))
        tree = look()
    return tree, frozenset(file.path for file in young)


def changed(root: int, files: Iterable[TreeFile]) -> frozenset[str]:
    """The paths of those `files` that are others by now, or gone, below the open directory `root`."""
    return frozenset(file.path for file in files if not _is_same(root, file))


def _is_same(root: int, file: TreeFile) -> bool:
    try:
        status = os.stat(file.path, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return file.is_same(status)


def _young(files: Iterable[TreeFile]) -> list[TreeFile]:
    limit = time.time_ns() - QUIET_NS
    return [file for file in files if file.ctime_ns > limit]


# --- which files of a tree an earlier manifest holds already ---

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

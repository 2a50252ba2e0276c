# SPDX-License-Identifier: Apache-2.0
"""Reads the regular files of a directory tree, without following a link anywhere in it."""

import os
import stat
from collections.abc import Callable
from operator import itemgetter

import msgspec

from ci_doctor.store.limits import StoreLimits
from ci_doctor.store.tree_paths import MOST_COMPONENTS, path_fault
from ci_doctor.system.files.own_directory import is_own_name

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
                    _gather_below(entry.name, folder, path, exclude, tree)
            except FileNotFoundError:
                continue
            except OSError as error:
                tree.append((path, f"cannot be read: {error.strerror}"))


def _gather_below(
    name: str,
    folder: int,
    path: str,
    exclude: Callable[[str], bool],
    entries: list[tuple[str, TreeFile | str]],
) -> None:
    descriptor = os.open(name, _DIRECTORY, dir_fd=folder)
    try:
        _gather(descriptor, f"{path}/", exclude, entries)
    finally:
        os.close(descriptor)


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

# SPDX-License-Identifier: Apache-2.0
"""Acts on the tree that a cache is restored to: moves staged files there and overwrites nothing.

Each directory on the way is opened from the one above it and is never a link, so a link that is
planted meanwhile leads nowhere.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ci_doctor.store.errors import StoreError, StoreFailure
from ci_doctor.store.manifest import FileEntry

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)
_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY)


def install_files(
    stage: int, target: int, entries: Iterable[FileEntry], markers: Callable[[str], bool]
) -> list[FileEntry]:
    """Link staged files into the open directory `target`, `markers` last; those whose path was free.

    Raises StoreError if a link or a file stands where a directory is needed, or if the file system
    has no hard links; OSError if the kernel refuses.
    """
    installed = []
    ordered = sorted(entries, key=lambda entry: (markers(entry.path), entry.path))
    with contextlib.ExitStack() as opened:
        last: str | None = None
        folder = target
        for entry in ordered:
            above, _, name = entry.path.rpartition("/")
            if above != last:
                opened.close()
                folder = opened.enter_context(_folder(target, above))
                last = above
            if _link(entry.path, stage, name, folder):
                installed.append(entry)
    return installed


def install_directory(stage: int, target: int, path: str) -> bool:
    """Rename a staged directory into the open directory `target`; False if its path is taken."""
    above, _, name = path.rpartition("/")
    with _folder(target, above) as folder:
        try:
            os.rename(path, name, src_dir_fd=stage, dst_dir_fd=folder)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
    return True


def _link(path: str, stage: int, name: str, folder: int) -> bool:
    try:
        os.link(path, name, src_dir_fd=stage, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise StoreError(
                StoreFailure.REFUSED,
                f"cannot add {path}: {error.strerror}",
                hint="restore to a directory that does not exist yet, or on another file system",
            ) from error
        raise
    return True


@contextlib.contextmanager
def _folder(root: int, path: str) -> Iterator[int]:
    """The directory at `path` below `root`, open, made where it is missing."""
    descriptor = os.dup(root)
    try:
        for name in filter(None, path.split("/")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=descriptor)
            below = _open(name, descriptor, path)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open(name: str, folder: int, path: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            message = f"{path} is not a directory: {name} is a link or a file there"
            hint = "remove it, or restore to another directory"
            raise StoreError(StoreFailure.REFUSED, message, hint=hint) from error
        raise

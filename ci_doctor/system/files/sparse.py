# SPDX-License-Identifier: Apache-2.0
"""Acts on files: gives the disk space of a file's middle back, while others write on at its end."""

import errno
import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

# linux/falloc.h
_KEEP_SIZE = 0x1
_PUNCH_HOLE = 0x2
_UNABLE = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV, errno.EPERM})
BLOCK_BYTES = 4096


@functools.cache
def _fallocate() -> "ctypes._NamedFuncPointer":
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    # The 64-bit name is there on both GNU and musl; the plain one takes 32 bits on some.
    function = library.fallocate64 if hasattr(library, "fallocate64") else library.fallocate
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function


def free_range(descriptor: int, start: int, end: int) -> bool:
    """Free the bytes from `start` to `end` (multiples of BLOCK_BYTES): they read as zeros, and all offsets stay.

    False where the file system cannot (fallocate(2): NFS before 4.2, some FUSE). Raises OSError as fallocate does.
    """
    import ctypes

    if _fallocate()(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start, end - start) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNABLE:
        return False
    raise OSError(number, os.strerror(number))


def is_sparse(descriptor: int) -> bool:
    """Whether some of the file was freed or never written. The position in it is changed."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_HOLE) < os.fstat(descriptor).st_size
    except OSError:  # an empty file, or no file at all
        return False

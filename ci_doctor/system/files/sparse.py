# SPDX-License-Identifier: Apache-2.0
"""Acts on files: frees the disk space of a range in a file, while others append to it.

The file becomes sparse: fallocate(2) with FALLOC_FL_PUNCH_HOLE.
"""

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
    # GNU and musl both have the 64-bit name; the plain one takes 32-bit offsets on some.
    function = library.fallocate64 if hasattr(library, "fallocate64") else library.fallocate
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function


def free_range(descriptor: int, start: int, end: int) -> bool:
    """Free the bytes from `start` to `end` (multiples of BLOCK_BYTES).

    They read as zeros, and all offsets stay. False if the file system cannot (fallocate(2): NFS
    before 4.2, some FUSE). Raises OSError as fallocate does.
    """
    import ctypes

    if _fallocate()(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start, end - start) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNABLE:
        return False
    raise OSError(number, os.strerror(number))


def is_sparse(descriptor: int) -> bool:
    """Whether some range of the file was freed or never written. Changes the position in it."""
    try:
        # lseek(2): the end of the file counts as a hole.
        return os.lseek(descriptor, 0, os.SEEK_HOLE) < os.fstat(descriptor).st_size
    except OSError:  # an empty file, or no file at all
        return False

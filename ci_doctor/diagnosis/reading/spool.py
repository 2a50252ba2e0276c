# SPDX-License-Identifier: Apache-2.0
"""Acts on a temporary file without a name: what a log becomes that cannot be read in place."""

import errno
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from typing import BinaryIO, cast

from ci_doctor.diagnosis.reading.unreadable import UnreadableLogError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def spooled(pieces: Iterable[bytes], opened: ExitStack) -> BinaryIO:
    """All `pieces` in a file that is gone when `opened` is closed.

    Raises UnreadableLogError if they do not fit the disk.
    """
    unbuffered = opened.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115
    file = cast("BinaryIO", unbuffered)
    for piece in pieces:
        _write(file, piece)
    return file


def _write(file: BinaryIO, piece: bytes) -> None:
    rest = memoryview(piece)
    try:
        # Without a buffer, a nearly full disk takes a part.
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise UnreadableLogError(
            f"no space left in {tempfile.gettempdir()} for a copy of it: "
            "set TMPDIR to a folder with more room"
        ) from error

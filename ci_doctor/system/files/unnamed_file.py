# SPDX-License-Identifier: Apache-2.0
"""Acts on files: one without a name, for the output of a program."""

import os
import tempfile
from typing import IO


def unnamed_file() -> IO[bytes]:
    """An empty file that is gone once it is closed, open for reading and writing.

    It lies in the temporary directory. If nothing can be written there (no such directory, a full
    or a read-only disk), it lies in memory. Raises OSError.
    """
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.memfd_create("output"), "w+b")  # noqa: PTH123 - a descriptor has no path

# SPDX-License-Identifier: Apache-2.0
"""Reads a log from where it lies, whatever its form, and makes it a seekable UTF-8 file."""

import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ci_doctor.diagnosis.reading.log_text import LogText

STANDARD_INPUT = "-"


@contextmanager
def open_log(name: str) -> Iterator[LogText]:
    """The log at the path `name`, or standard input for `-`.

    Raises OSError if it cannot be read.
    """
    if name == STANDARD_INPUT:
        with _spooled(sys.stdin.buffer) as file:
            yield _text("standard input", file)
        return
    path = Path(name)
    if path.suffix == ".gz":
        with gzip.open(path) as packed, _spooled(cast("BinaryIO", packed)) as file:
            yield _text(name, file)
        return
    with path.open("rb") as file:
        yield _text(name, file)


def _text(name: str, file: BinaryIO) -> LogText:
    return LogText(name, file, os.fstat(file.fileno()).st_size)


@contextmanager
def _spooled(source: BinaryIO) -> Iterator[BinaryIO]:
    """All of `source` in a file without a name."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(source, file, 1024 * 1024)
        file.flush()
        yield file

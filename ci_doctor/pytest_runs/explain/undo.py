# SPDX-License-Identifier: Apache-2.0
"""Acts on files: takes back what the tests of a trial made, changed and removed.

Only what did not exist before the trial is removed. The plugin kept a copy of what was changed.
"""

import contextlib
import json
import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable


class WrittenUndo(Struct, frozen=True, kw_only=True):
    """The file of the plugin: paths that the trial made, and the copies of those that it changed."""

    made: tuple[str, ...] = ()
    changed: dict[str, str] = {}


def undo(record: Path) -> None:
    """Take back what `record` lists. Without the file (the process was killed) nothing is undone.

    What cannot be removed or written is left as it is.
    """
    try:
        # Not by msgspec: a name that is not UTF-8 stands there with lone surrogates.
        written = msgspec.convert(json.loads(record.read_bytes()), decodable(WrittenUndo))
    except FileNotFoundError:
        return
    for name in written.made:
        _remove(Path(name))
    for name, copy in written.changed.items():
        with contextlib.suppress(OSError):
            Path(name).write_bytes(Path(copy).read_bytes())


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

# SPDX-License-Identifier: Apache-2.0
"""Pure. Which relative paths can stand in one tree, on any file system and without surprise."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from ci_doctor.store.errors import LimitError
from ci_doctor.store.limits import StoreLimits

_COMPONENT_BYTES: Final = 255
MOST_COMPONENTS: Final = 128
_NO_NAMES: Final = frozenset({"", ".", ".."})
# No file of a cache has these: they deceive a reader of a message, or end a name early.
_BAD_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_NOT_PLAIN: Final = "is no plain relative path"
_LONG_COMPONENT: Final = f"has a component of more than {_COMPONENT_BYTES} bytes"


def check_paths(paths: Iterable[str], limits: StoreLimits) -> None:
    """Raise LimitError unless all `paths` can stand in one tree.

    Two names that differ only in case are refused, because a file system may take them for one.
    """
    fault = path_fault(limits)
    for path in paths:
        reason = fault(path)
        if reason is not None:
            raise LimitError(f"{path[:200]!r} {reason}")


def path_fault(limits: StoreLimits) -> Callable[[str], str | None]:
    """A function that says what is wrong with a path, given those it saw before; None if nothing.

    There are many more files than directories, so what can be asked of a directory is asked once.
    """
    files: set[str] = set()
    folders = _Folders(files)
    shortest = min(_COMPONENT_BYTES, limits.path_bytes)

    def fault(path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        if name in _NO_NAMES or path[0] == "/" or _BAD_CHARACTER.search(name) is not None:
            return _NOT_PLAIN
        reason = None
        if len(path) > shortest or not path.isascii():
            reason = _length_fault(path, name, limits)
        if reason is None and folder not in folders.exact:
            reason = folders.add(folder)
        if reason is not None:
            return reason
        folded = path.casefold()
        if folded in files:
            return "is another file's path, or differs from it only in case"
        if folded in folders.folded:
            return "is a directory of another file"
        files.add(folded)
        return None

    return fault


class _Folders:
    """The directories on the way to `files`, which holds folded paths: as they are written, and folded."""

    def __init__(self, files: set[str]) -> None:
        self.exact = {""}
        self.folded = {""}
        self._files = files

    def add(self, folder: str) -> str | None:
        """Enter `folder` and those above it; what is wrong with a file in it, if anything."""
        if folder.count("/") >= MOST_COMPONENTS - 1:
            return f"has more than {MOST_COMPONENTS} components"
        if _BAD_CHARACTER.search(folder) is not None:
            return _NOT_PLAIN
        return self._add(folder)

    def _add(self, folder: str) -> str | None:
        if folder in self.exact:
            return None
        folded = folder.casefold()
        if folded in self.folded:
            return "lies in a directory whose name differs from another's only in case"
        if folded in self._files:
            return "lies below another file"
        above, _, name = folder.rpartition("/")
        if name in _NO_NAMES:
            return _NOT_PLAIN
        if len(name.encode()) > _COMPONENT_BYTES:
            return _LONG_COMPONENT
        reason = self._add(above)
        if reason is None:
            self.exact.add(folder)
            self.folded.add(folded)
        return reason


def _length_fault(path: str, name: str, limits: StoreLimits) -> str | None:
    try:
        encoded = len(path.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if encoded > limits.path_bytes:
        return f"has {encoded} bytes, more than {limits.path_bytes}"
    if len(name.encode()) > _COMPONENT_BYTES:
        return _LONG_COMPONENT
    return None

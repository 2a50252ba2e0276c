# SPDX-License-Identifier: Apache-2.0
"""Acts on files: reads one as it grows, and reports when it is written, created or removed.

inotify(7), by ctypes: no library of ours has it, and only this much of it is needed.
"""

import asyncio
import contextlib
import errno
import functools
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ci_doctor.system.files.access import open_at_once

_POLL_S = 0.05
_READ_BYTES = 64 * 1024
# linux/inotify.h
_IN_MODIFY = 0x2
_IN_ATTRIB = 0x4
_IN_CLOSE_WRITE = 0x8
_IN_MOVED_FROM = 0x40
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_DELETE = 0x200
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_IN_Q_OVERFLOW = 0x4000
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x1000000
_SELF_GONE = _IN_DELETE_SELF | _IN_MOVE_SELF
_OF_FILE = _IN_MODIFY | _IN_CLOSE_WRITE | _IN_ATTRIB | _SELF_GONE
_ENTRIES = _IN_CREATE | _IN_MOVED_TO | _IN_DELETE | _IN_MOVED_FROM
_OF_FOLDER = _ENTRIES | _SELF_GONE | _IN_ONLYDIR
_EVENT = struct.Struct("iIII")  # struct inotify_event: wd, mask, cookie, len; the name follows


class FileWatch:
    """Calls `on_change` in the running event loop after `path` has changed, or is created.

    One call may stand for many changes, and one may come for none. A write is reported within a
    millisecond or so. If the kernel gives no notification, `on_change` is called every 50 ms
    instead: fs.inotify.max_user_instances is used up, or the folder is not there. A write by
    another machine of a network file system is not seen.
    """

    def __init__(self, path: Path, on_change: Callable[[], None]) -> None:
        self._folder = os.fsencode(path.parent)
        self._name = os.fsencode(path.name)
        self._path = os.fsencode(path)
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = -1
        self._folder_watch = -1
        if not self._watch():
            self._poll_later()

    @property
    def notified(self) -> bool:
        """Whether the kernel notifies us; otherwise a timer does."""
        return self._descriptor >= 0

    def close(self) -> None:
        """Make no further call, and give everything back; may be called again."""
        self._on_change = _nothing
        self._forget()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> bool:
        """Have the kernel notify us; False if it will not."""
        library = _library()
        self._descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            return False
        folder = self._folder or b"."
        self._folder_watch = library.inotify_add_watch(self._descriptor, folder, _OF_FOLDER)
        if self._folder_watch < 0:
            self._forget()
            return False
        self._loop.add_reader(self._descriptor, self._notified)
        return self._watch_file()

    def _watch_file(self) -> bool:
        """Watch the file that has the name now, if any; to watch one again changes nothing."""
        import ctypes

        if _library().inotify_add_watch(self._descriptor, self._path, _OF_FILE) >= 0:
            return True
        # No file yet: the watch of its folder reports when there is one.
        if ctypes.get_errno() in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return True
        # The user's watches are used up, or the file may not be read yet.
        self._forget()
        return False

    def _notified(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        events = list(_events(data))
        gone = _SELF_GONE | _IN_IGNORED
        is_folder_gone = any(
            watch == self._folder_watch and mask & gone for watch, mask, _ in events
        )
        is_about_file = is_folder_gone or any(self._is_about_file(*event) for event in events)
        if is_folder_gone:
            self._forget()
            self._poll_later()
        # A new file may have the name by now, which no watch is on.
        elif is_about_file and not self._watch_file():
            self._poll_later()
        if is_about_file:
            self._on_change()

    def _is_about_file(self, watch: int, mask: int, name: bytes) -> bool:
        """Whether an event may be about the file; after an overflow any may have been lost."""
        if watch != self._folder_watch or name == self._name:
            return True
        return bool(mask & _IN_Q_OVERFLOW)

    def _poll_later(self) -> None:
        self._timer = self._loop.call_later(_POLL_S, self._poll)

    def _poll(self) -> None:
        self._timer = None
        # The kernel may be able to notify us by now. What happened before it could is not lost:
        # `on_change` is called in any case.
        if not self._watch():
            self._poll_later()
        self._on_change()

    def _forget(self) -> None:
        if self._descriptor < 0:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self._folder_watch = -1


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(watch, mask, name) of each event in what was read."""
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, offset)
        start = offset + _EVENT.size
        offset = start + length
        yield watch, mask, data[start:offset].rstrip(b"\0")


def _nothing() -> None:
    pass


@functools.cache
def _library() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


class GrowingFile:
    """The regular file at `path`, read from its beginning, and then on as it grows.

    One that replaces it is read from its own beginning, after the rest of the former; one that was
    cut short is read anew. Not `by_name`: the first is read on for ever, from its new end if it was
    cut. A file that does not exist yet holds nothing. `problem` is why it cannot be read.
    `is_restarted` is set when what comes now is another text; whoever cares takes it back.
    """

    def __init__(self, path: Path, *, by_name: bool = True) -> None:
        self.offset = 0
        self.descriptor = -1
        self.problem: str | None = None
        self.is_restarted = False
        self._path = path
        self._by_name = by_name

    def size(self) -> int | None:
        """How many bytes it has; None if it cannot be opened."""
        if self.descriptor < 0 and not self._open():
            return None
        size = os.fstat(self.descriptor).st_size
        if size < self.offset:  # somebody has truncated it, as `copytruncate` does (logrotate(8))
            self.offset = 0 if self._by_name else size
            self.is_restarted = self._by_name
        return size

    def read(self, most: int) -> bytes:
        """The next bytes; nothing if there are no more."""
        piece = self._read(most)
        if not piece and self._by_name and self._is_replaced():
            self.close()
            self.offset = 0
            self.is_restarted = True
            piece = self._read(most)
        return piece

    def close(self) -> None:
        """Give the descriptor back; may be called again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _read(self, most: int) -> bytes:
        if self.size() is None:
            return b""
        piece = os.pread(self.descriptor, most, self.offset)
        self.offset += len(piece)
        return piece

    def _open(self) -> bool:
        try:
            descriptor = open_at_once(self._path)
        except OSError as error:
            self.problem = error.strerror
            return False
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            self.problem = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "Not a regular file"
            return False
        self.descriptor = descriptor
        self.problem = None
        return True

    def _is_replaced(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            # Between the two halves of a rotation; a watch reports the new file.
            return False
        return self.descriptor >= 0 and not os.path.samestat(there, os.fstat(self.descriptor))

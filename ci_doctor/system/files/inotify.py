# SPDX-License-Identifier: Apache-2.0
"""Acts on the kernel's file notifications (inotify(7)): tells when a file is written, made, replaced or removed."""

import asyncio
import contextlib
import functools
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
_OF_FILE = _IN_MODIFY | _IN_CLOSE_WRITE | _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF
_OF_FOLDER = (
    _IN_CREATE
    | _IN_MOVED_TO
    | _IN_DELETE
    | _IN_MOVED_FROM
    | _IN_DELETE_SELF
    | _IN_MOVE_SELF
    | _IN_ONLYDIR
)
_EVENT = struct.Struct("iIII")  # struct inotify_event: wd, mask, cookie, len; the name follows


class FileWatch:
    """Calls `on_change` in the running event loop after `path` has changed in any way, also when it comes into being.

    One call may stand for many changes, and one may come for none. A write is told within a millisecond or so. Where
    the kernel gives no notification (fs.inotify.max_user_instances is used up, the folder is not there yet, or it goes
    away) `on_change` is called every 50 ms instead. A write by another machine of a network file system is not seen.
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
        """Whether the kernel tells; otherwise a timer asks."""
        return self._descriptor >= 0

    def close(self) -> None:
        """Call no more, and give everything back; may be called again."""
        self._on_change = _nothing
        self._forget()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> bool:
        """Have the kernel tell; False where it will not."""
        library = _library()
        self._descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            return False
        self._folder_watch = library.inotify_add_watch(
            self._descriptor, self._folder or b".", _OF_FOLDER
        )
        if self._folder_watch < 0:
            self._forget()
            return False
        self._loop.add_reader(self._descriptor, self._told)
        return self._watch_file()

    def _watch_file(self) -> bool:
        """The file that has the name now, if any; watching one again changes nothing."""
        import ctypes
        import errno

        if _library().inotify_add_watch(self._descriptor, self._path, _OF_FILE) >= 0:
            return True
        if ctypes.get_errno() in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return True
        self._forget()  # the user's watches are used up, or the file may not be read yet
        return False

    def _told(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        ours, folder_is_gone = self._about_us(data)
        if folder_is_gone:
            self._forget()
        if folder_is_gone or (ours and not self._watch_file()):
            self._poll_later()
        if ours:
            self._on_change()

    def _about_us(self, data: bytes) -> tuple[bool, bool]:
        """Whether one of these events may be about the file, and whether its folder is gone."""
        ours = gone = False
        offset = 0
        while offset < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, offset)
            name = data[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
            offset += _EVENT.size + length
            self_gone = watch == self._folder_watch and bool(
                mask & (_IN_DELETE_SELF | _IN_MOVE_SELF | _IN_IGNORED)
            )
            gone = gone or self_gone
            ours = (
                ours
                or self_gone
                or watch != self._folder_watch
                or name == self._name
                or bool(mask & _IN_Q_OVERFLOW)
            )
        return ours, gone

    def _poll_later(self) -> None:
        self._timer = self._loop.call_later(_POLL_S, self._poll)

    def _poll(self) -> None:
        self._timer = None
        # The kernel may be able to tell by now; and what happened before it could must still be told.
        if not self._watch():
            self._poll_later()
        self._on_change()

    def _forget(self) -> None:
        if self._descriptor < 0:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = self._folder_watch = -1


def _nothing() -> None:
    pass


@functools.cache
def _library() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)

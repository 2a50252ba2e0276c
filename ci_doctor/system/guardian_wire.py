# SPDX-License-Identifier: Apache-2.0
"""Acts on a socket: whole messages with file descriptors, between ci-doctor and its guardian.

Standard library only, and little of it: the guardian starts in every launch, without
site-packages. Both ends run the same Python, which is what marshal asks for.
"""

import marshal
import os
import socket
from collections import deque
from collections.abc import Iterable

# typing itself would take the guardian as long as all the rest of its imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HEADER_BYTES = 5  # four: how long the message is; one: how many file descriptors come with it
_DESCRIPTOR_BYTES = 4  # of a C int
_ROOM = socket.CMSG_SPACE(8 * _DESCRIPTOR_BYTES)  # for eight of them
_CHUNK = 1 << 13  # what recvmsg sets aside each time; most messages are shorter by far


class Wire:
    """One end of a stream socketpair. Nothing here waits: the caller polls `fileno()`.

    Of the messages that carry file descriptors only one may be under way in each direction, so
    that all that have arrived belong to it. If they exceed the receiver's limit of open
    files (RLIMIT_NOFILE), fewer arrive, or none.
    """

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._arrived = bytearray()
        self._descriptors: list[int] = []
        self._queue: deque[tuple[memoryview, tuple[int, ...], bool]] = deque()

    def fileno(self) -> int:
        """For poll(2)."""
        return self._channel.fileno()

    @property
    def unsent(self) -> bool:
        """Whether something waits until the other end reads."""
        return bool(self._queue)

    def put(
        self, message: "tuple[Any, ...]", descriptors: Iterable[int] = (), *, giving: bool = False
    ) -> None:
        """Queue a message for `send`; `giving`: close its descriptors here once they are sent."""
        data = marshal.dumps(message)
        attached = tuple(descriptors)
        header = len(data).to_bytes(4, "big") + bytes([len(attached)])
        self._queue.append((memoryview(header + data), attached, giving))

    def send(self) -> None:
        """Send as much as the socket takes now. Raises OSError if the other end is gone."""
        while self._queue:
            data, descriptors, giving = self._queue[0]
            try:
                if descriptors:
                    sent = socket.send_fds(self._channel, [data], descriptors)
                else:
                    sent = self._channel.send(data)
            except BlockingIOError:
                return
            self._queue.popleft()
            if giving:
                _close(descriptors)
            # The descriptors went with the first byte; what remains is bytes alone.
            if sent < len(data):
                self._queue.appendleft((data[sent:], (), False))

    def receive(self) -> "list[tuple[tuple[Any, ...], list[int]]] | None":
        """The messages that are complete by now, each with its file descriptors.

        None once the other end is gone.
        """
        try:
            # Not socket.recv_fds, which does not pass the flag on (Python 3.11): without it every
            # program started later would inherit the descriptors.
            data, ancillary, _, _ = self._channel.recvmsg(_CHUNK, _ROOM, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return []
        except OSError:
            return None
        for level, kind, raw in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(raw) // _DESCRIPTOR_BYTES * _DESCRIPTOR_BYTES
                self._descriptors += memoryview(raw)[:whole].cast("i")
        if not data:
            return None
        self._arrived += data
        return list(iter(self._next, None))

    def close(self) -> None:
        """Close the socket, and the descriptors that were not fetched or not sent."""
        self._channel.close()
        _close(self._descriptors)
        self._descriptors = []
        for _, descriptors, giving in self._queue:
            if giving:
                _close(descriptors)
        self._queue.clear()

    def _next(self) -> "tuple[tuple[Any, ...], list[int]] | None":
        """Take the first complete message of what has arrived; None if there is none."""
        size = int.from_bytes(self._arrived[:4], "big") + _HEADER_BYTES
        if len(self._arrived) < size:
            return None
        content = bytes(self._arrived[_HEADER_BYTES:size])
        message = marshal.loads(content)  # noqa: S302 - from a socketpair of our own
        descriptors: list[int] = []
        if self._arrived[4]:
            descriptors, self._descriptors = self._descriptors, []
        del self._arrived[:size]
        return message, descriptors


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)

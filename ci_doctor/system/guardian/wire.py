# SPDX-License-Identifier: Apache-2.0
"""Acts on a socket: whole messages with file descriptors, between ci-doctor and its guardian.

Standard library only, and little of it: the guardian starts in every launch. Both ends run the same Python, which is
what marshal asks for.
"""

import marshal
import os
import socket
from collections import deque
from collections.abc import Iterable

TYPE_CHECKING = (
    False  # typing itself would take the guardian as long as all the rest of its imports
)
if TYPE_CHECKING:
    from typing import Any

_HEADER = 5  # four bytes: how long the message is; one: how many file descriptors come with it
_ROOM = socket.CMSG_SPACE(8 * 4)  # for eight of them
_CHUNK = 1 << 13  # what recvmsg sets aside each time; most messages are shorter by far


class Wire:
    """One end of a stream socketpair. Nothing here waits: the caller polls `fileno()`.

    Of the messages that carry file descriptors only one may be under way in each direction, so that all that have
    arrived belong to it. Where the receiver has no room for them (RLIMIT_NOFILE) they are fewer, or none.
    """

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._arrived = bytearray()
        self._descriptors: list[int] = []
        self._waiting: deque[tuple[memoryview, tuple[int, ...], bool]] = deque()

    def fileno(self) -> int:
        """For poll(2)."""
        return self._channel.fileno()

    @property
    def unsent(self) -> bool:
        """Whether something waits until the other end reads."""
        return bool(self._waiting)

    def put(
        self, message: "tuple[Any, ...]", descriptors: Iterable[int] = (), *, giving: bool = False
    ) -> None:
        """Line a message up for `send`; `giving`: its descriptors are closed here once they are sent."""
        data, given = marshal.dumps(message), tuple(descriptors)
        header = len(data).to_bytes(4, "big") + bytes([len(given)])
        self._waiting.append((memoryview(header + data), given, giving))

    def send(self) -> None:
        """As much as the socket takes now. Raises OSError where the other end is gone."""
        while self._waiting:
            data, descriptors, giving = self._waiting[0]
            try:
                sent = (
                    socket.send_fds(self._channel, [data], descriptors)
                    if descriptors
                    else self._channel.send(data)
                )
            except BlockingIOError:
                return
            self._waiting.popleft()
            if giving:
                _close(descriptors)
            if sent < len(data):
                self._waiting.appendleft((data[sent:], (), False))

    def receive(self) -> "list[tuple[tuple[Any, ...], list[int]]] | None":
        """The messages that are whole by now, each with the file descriptors that came; None once the other end is gone."""
        try:
            # Not socket.recv_fds, which does not hand the flag on (Python 3.11): each would be inherited by all others.
            data, beside, _, _ = self._channel.recvmsg(_CHUNK, _ROOM, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return []
        except OSError:
            return None
        for level, kind, raw in beside:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._descriptors += memoryview(raw)[: len(raw) // 4 * 4].cast("i")
        if not data:
            return None
        self._arrived += data
        return list(iter(self._next, None))

    def close(self) -> None:
        """Close the socket and what has arrived and was not fetched."""
        self._channel.close()
        _close(self._descriptors)
        self._descriptors = []
        for _, descriptors, giving in self._waiting:
            if giving:
                _close(descriptors)
        self._waiting.clear()

    def _next(self) -> "tuple[tuple[Any, ...], list[int]] | None":
        size = int.from_bytes(self._arrived[:4], "big") + _HEADER
        if len(self._arrived) < max(size, _HEADER):
            return None
        message = marshal.loads(bytes(self._arrived[_HEADER:size]))  # noqa: S302 - from a socketpair of our own
        descriptors: list[int] = []
        if self._arrived[4]:
            descriptors, self._descriptors = self._descriptors, []
        del self._arrived[:size]
        return message, descriptors


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)

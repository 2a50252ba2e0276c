# SPDX-License-Identifier: Apache-2.0
"""Acts on threads: a few of them, which start nothing more once an error has been raised."""

import contextlib
import enum
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

_OF_THREAD: Final = threading.local()


@contextlib.contextmanager
def few_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """An executor. On the way out it waits for what runs, and drops what has not begun."""
    executor = ThreadPoolExecutor(count, "ci-doctor-store")
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


class ThreadBuffer(enum.Enum):
    """What a buffer of a thread is for: bytes as a store has them, or as files have them."""

    STORED = enum.auto()
    RAW = enum.auto()


def thread_buffer(use: ThreadBuffer, length: int) -> memoryview:
    """`length` bytes that belong to this thread, and hold what their last user left there.

    Reading or decompressing into a new buffer takes 1.2 to 1.7 times as long: the kernel clears each
    page of it.
    """
    buffer: memoryview | None = getattr(_OF_THREAD, use.name, None)
    if buffer is None or len(buffer) < length:
        # Rounded up, so that each of many lengths does not need a new one.
        buffer = memoryview(bytearray(1 << (length - 1).bit_length()))
        setattr(_OF_THREAD, use.name, buffer)
    return buffer[:length]

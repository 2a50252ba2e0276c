# SPDX-License-Identifier: Apache-2.0
"""Acts on threads: a few of them, which start nothing more once an error has been raised."""

import contextlib
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


def thread_buffer(length: int) -> memoryview:
    """`length` bytes that belong to this thread, and hold what its last user left there.

    Decompressing into a new buffer takes 1.2 to 1.7 times as long: the kernel clears each page of it.
    """
    buffer: memoryview | None = getattr(_OF_THREAD, "buffer", None)
    if buffer is None or len(buffer) < length:
        buffer = _OF_THREAD.buffer = memoryview(bytearray(length))
    return buffer[:length]

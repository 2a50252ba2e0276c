# SPDX-License-Identifier: Apache-2.0
"""Acts on threads and the clock: the deadline of a transfer, its digests, and threads that stop at an error."""

import contextlib
import enum
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Final

from ci_doctor.store.objects import StoreError, StoreFailure

if TYPE_CHECKING:
    from blake3 import blake3

# --- the time that is left for a transfer ---
# One deadline is passed down to every step, so that ten slow steps do not take ten time-outs.


class Deadline:
    """`seconds` from now, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def end(self) -> None:
        """No time is left: what checks the deadline stops, and tidies up."""
        self._end = time.monotonic()

    def check(self, doing: str) -> None:
        """Raise StoreError if no time is left for `doing`."""
        if self.left() <= 0:
            message = f"{doing} took longer than {self.seconds:g} s"
            raise StoreError(StoreFailure.TIMEOUT, message, hint="allow more time, or save less")


# --- the digest of what a store holds in bulk (frames, packs, files): BLAKE3 of 256 bits, in hex ---
# It takes a third of the time that SHA-256 takes with the instructions of a CPU for it, and a tenth of
# that without them. Manifests, which are small, keep the SHA-256 that signatures are made with.

_PART_BYTES: Final = 1024 * 1024


def digest(content: bytes | memoryview) -> str:
    """The digest (hex) of `content`."""
    from blake3 import blake3

    return blake3(content).hexdigest()


def digest_of_file(file: IO[bytes]) -> str:
    """The digest (hex) of what is left of an open file. Raises OSError."""
    running = running_digest()
    while part := file.read(_PART_BYTES):
        running.update(part)
    return running.hexdigest()


def running_digest() -> "blake3":
    """The digest of content that comes in parts: `update()` adds one, `hexdigest()` is that of all."""
    from blake3 import blake3

    return blake3()


# --- a few of them, which start nothing more once an error has been raised ---

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

# SPDX-License-Identifier: Apache-2.0
"""Acts on threads: a few of them, which start nothing more once an error has been raised."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor


@contextlib.contextmanager
def few_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """An executor. On the way out it waits for what runs, and drops what has not begun."""
    executor = ThreadPoolExecutor(count, "ci-doctor-store")
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)

# SPDX-License-Identifier: Apache-2.0
"""Acts on a thread: work that may hang ends for its caller at a deadline.

A directory on a dead network file system holds up a thread in the kernel, where no signal ends it.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ci_doctor.store.errors import StoreError, StoreFailure

T = TypeVar("T")


def bounded(work: Callable[[], T], seconds: float, doing: str) -> T:
    """What `work` returns or raises. Raises StoreError if `doing` takes longer than `seconds`.

    Work that is late goes on in a daemon thread, which ends with the process.
    """
    running = _Running(work)
    thread = threading.Thread(target=running.run, name=doing, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        message = f"{doing} took longer than {seconds:.3g} s"
        raise StoreError(StoreFailure.TIMEOUT, message, hint="is the store reachable?")
    return running.result()


class _Running(Generic[T]):
    """The work, and how it ended."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._values: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Keep what the work returns or raises."""
        try:
            self._values.append(self._work())
        except BaseException as error:  # noqa: BLE001 - it is raised in the other thread
            self._error = error

    def result(self) -> T:
        """What came of it."""
        if self._error is not None:
            raise self._error
        return self._values[0]

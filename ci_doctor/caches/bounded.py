# SPDX-License-Identifier: Apache-2.0
"""Acts on a thread: work on a store that may hang ends for its caller at a deadline.

A directory on a dead network file system holds up a thread in the kernel, where no signal ends it.
"""

from collections.abc import Callable
from typing import TypeVar

from ci_doctor.store.errors import StoreError, StoreFailure
from ci_doctor.system import begun_call

T = TypeVar("T")


def bounded(work: Callable[[], T], seconds: float, doing: str) -> T:
    """What `work` returns or raises. Raises StoreError if `doing` takes longer than `seconds`.

    Work that is late goes on in a daemon thread, which ends with the process.
    """
    try:
        return begun_call.bounded(work, seconds)
    except begun_call.TimedOut as error:
        message = f"{doing} took longer than {seconds:.3g} s"
        raise StoreError(StoreFailure.TIMEOUT, message, hint="is the store reachable?") from error

# SPDX-License-Identifier: Apache-2.0
"""Acts on a thread: work on a store that may hang ends for its caller at a deadline.

A directory on a dead network file system holds up a thread in the kernel, where no signal ends it.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from ci_doctor.store.deadline import Deadline
from ci_doctor.store.errors import StoreError, StoreFailure
from ci_doctor.system.processes import limited_calls

T = TypeVar("T")

# A frame that is being fetched and the removal of some gigabytes; less than an agent's grace period.
_TIDY_S = 3.0


def bounded(
    work: Callable[[], T], seconds: float, doing: str, deadline: Deadline | None = None
) -> T:
    """What `work` returns or raises. Raises StoreError if `doing` takes longer than `seconds`.

    Work that is late, or that a signal ends, gets a moment to remove what it has begun: `deadline`,
    by which it works, is over. If it hangs, its daemon thread ends with the process.
    """
    has_ended = threading.Event()

    def tracked() -> T:
        try:
            return work()
        finally:
            has_ended.set()

    try:
        return limited_calls.bounded(tracked, seconds)
    except BaseException as error:
        if deadline is not None:
            deadline.end()
            has_ended.wait(_TIDY_S)
        if not isinstance(error, limited_calls.TimedOut):
            raise
        message = f"{doing} took longer than {seconds:.3g} s"
        raise StoreError(StoreFailure.TIMEOUT, message, hint="is the store reachable?") from error

# SPDX-License-Identifier: Apache-2.0
"""Acts on signals: ends work in this process, also a call that waits, after a time (setitimer(2))."""

import contextlib
import signal
from collections.abc import Iterator


class TimeIsUp(BaseException):
    """The time is over. `except Exception` must not hold it up."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp in the context after `seconds`; of the main thread alone, and not nested."""
    earlier = signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # None stands for a handler that was not installed from Python.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if earlier is None else earlier)


def _raise(_number: int, _frame: object) -> None:
    raise TimeIsUp

# SPDX-License-Identifier: Apache-2.0
"""Acts on nothing but the clock: the time that is left for a transfer.

One deadline is passed down to every step, so that ten slow steps do not take ten time-outs.
"""

import time

from ci_doctor.store.errors import StoreError, StoreFailure


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

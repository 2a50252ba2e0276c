# SPDX-License-Identifier: Apache-2.0
"""Acts on stderr: says what a transfer is at, once it takes more than two seconds."""

import threading
from types import TracebackType
from typing import Self

from ci_doctor.session.printing import say

_QUIET_S = 2.0


class TransferProgress:
    """The steps of a transfer, told from its own thread; a step may hang, so a timer shows it."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._step = "waiting for the other processes of this machine"
        self._guard = threading.Lock()
        self._is_late = False
        self._timer = threading.Timer(_QUIET_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()

    def __call__(self, step: str) -> None:
        """Remember the step, and print it if two seconds have passed."""
        with self._guard:
            self._step = step
            is_late = self._is_late
        if is_late:
            say(f"ci-doctor: {step}\n")

    def _show(self) -> None:
        with self._guard:
            self._is_late = True
            step = self._step
        say(f"ci-doctor: {step} (for {self._deadline_s:.0f} s at most)\n")

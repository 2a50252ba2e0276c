# SPDX-License-Identifier: Apache-2.0
"""Acts on a thread: calls a function that may hang, and waits for a limited time."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TimedOut(Exception):  # noqa: N818 - as Terminated, it says what happened
    """The function has not returned in time; its thread may go on until the process ends."""


class BegunCall(Generic[T]):
    """A function that has been called in a thread of its own, until `result` is asked for."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        # A daemon: the process does not wait for it at its end.
        self._thread = threading.Thread(target=self._call, daemon=True, name="ci-doctor-call")
        try:
            self._thread.start()
        except RuntimeError:  # no thread is left on this machine
            self._call()

    def result(self, limit_s: float | None = None) -> T:
        """What the function returns. Raises what it raises, and TimedOut after `limit_s` seconds."""
        if self._thread.ident is not None:
            self._thread.join(limit_s)
        if self._errors:
            raise self._errors[0]
        if not self._results:
            raise TimedOut(f"no answer within {limit_s or 0:g} s")
        return self._results[0]

    def _call(self) -> None:
        try:
            self._results.append(self._function())
        # It is raised again in the thread that asks for the result.
        except BaseException as error:  # noqa: BLE001
            self._errors.append(error)


def bounded(function: Callable[[], T], limit_s: float) -> T:
    """What `function` returns. Raises what it raises, and TimedOut after `limit_s` seconds."""
    return BegunCall(function).result(limit_s)

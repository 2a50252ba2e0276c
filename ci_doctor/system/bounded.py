# SPDX-License-Identifier: Apache-2.0
"""Acts on a thread: calls a function that may hang, and waits for a limited time."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TimedOut(Exception):  # noqa: N818 - as Terminated, it says what happened
    """The function has not returned in time; its thread may go on until the process ends."""


def bounded(function: Callable[[], T], limit_s: float) -> T:
    """What `function` returns. Raises what it raises, and TimedOut after `limit_s` seconds.

    Without a thread left on this machine, the function is called without a limit.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        # It is raised again below, in the thread of the caller.
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    # A daemon: the process does not wait for it at its end.
    thread = threading.Thread(target=call, daemon=True, name="ci-doctor-bounded")
    try:
        thread.start()
    except RuntimeError:
        return function()
    thread.join(limit_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimedOut(f"no answer within {limit_s:g} s")
    return results[0]

# SPDX-License-Identifier: Apache-2.0
"""Acts on threads: asks many things at once, and goes on without those that do not answer."""

import os
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from ci_doctor.system import clock
from ci_doctor.system.processes.cpu_wait import CpuWaits
from ci_doctor.system.processes.extension import extended

K = TypeVar("K")
V = TypeVar("V")


class TimelyAnswers(Struct, Generic[K, V], frozen=True, kw_only=True):
    """What was answered, and why the rest was not."""

    values: Mapping[K, V]
    missing: Mapping[K, str]


def answers_within(limit_s: float, questions: Mapping[K, Callable[[], V]]) -> TimelyAnswers[K, V]:
    """Ask each question in a thread of its own, and wait for at most `limit_s` seconds in all.

    Time in which our threads waited for a CPU extends the limit. A thread in a system call that
    does not return (a dead NFS server) stays behind; it is a daemon. The text of an exception is a reason.
    """
    arrived: queue.SimpleQueue[tuple[K, V | Exception]] = queue.SimpleQueue()
    waits = CpuWaits(lambda: (os.getpid(),))
    before = waits.now()
    began = clock.now()
    values: dict[K, V] = {}
    missing = dict.fromkeys(questions, f"no answer within {limit_s:g} s")
    awaited = set()
    for key, question in questions.items():
        if _start(key, question, arrived):
            awaited.add(key)
        else:
            missing[key] = "no thread could be started"
    while awaited:
        left_s = extended(limit_s, waits.since(before)) - (clock.now() - began)
        if left_s <= 0:
            break
        try:
            key, answer = arrived.get(timeout=left_s)
        except queue.Empty:
            continue  # the limit may have been extended meanwhile
        awaited.discard(key)
        if isinstance(answer, Exception):
            missing[key] = getattr(answer, "strerror", None) or str(answer)
        else:
            values[key] = answer
            del missing[key]
    return TimelyAnswers(values=values, missing=missing)


def _start(
    key: K, question: Callable[[], V], arrived: "queue.SimpleQueue[tuple[K, V | Exception]]"
) -> bool:
    def ask() -> None:
        try:
            arrived.put((key, question()))
        # Whatever it is, nobody would hear of it in this thread.
        except Exception as error:  # noqa: BLE001
            arrived.put((key, error))

    try:
        threading.Thread(target=ask, daemon=True).start()
    except RuntimeError:  # the limit of threads
        return False
    return True

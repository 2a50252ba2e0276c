# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: what happens before what, in vector clocks (Mattern 1989).

The clock of a thread has, for each other thread, how many of its events came before the next event
here. It follows the start and the end of threads, and what hands something from one thread to
another: Event, Condition, Semaphore, Barrier, Queue, and the futures of thread pools. Two threads
can take a plain lock in the opposite order in another run, so a lock orders nothing.
"""

import sys
from os import register_at_fork
from time import monotonic_ns

from _ci_doctor_trace import (  # type: ignore[import-not-found]
    STARTERS,
    place,
    process,
    record,
    thread,
    unframed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ATTRIBUTE = "_ci_doctor_order"
# By thread, its events. Python waits for all of these threads before it calls what atexit holds.
ended: "dict[int, int]" = {}
PATIENT_S = 10.0


def publish(thing: "Any") -> None:
    """All events of this thread so far come before those of threads that `absorb` `thing` later."""
    published = getattr(thing, ATTRIBUTE, None)
    merged = dict(published) if published else {}
    for number, events in thread.clock.items():
        if merged.get(number, 0) < events:
            merged[number] = events
    merged[thread.number] = thread.events
    try:
        setattr(thing, ATTRIBUTE, merged)
    except (AttributeError, TypeError):
        pass  # it takes no attribute: fewer orders are known


def absorb(thing: "Any") -> None:
    """What was `publish`ed with `thing` comes before all later events of this thread."""
    published = getattr(thing, ATTRIBUTE, None)
    if not published:
        return
    mine = thread.clock
    for number, events in published.items():
        if number != thread.number and mine.get(number, 0) < events:
            mine[number] = events
            thread.is_clock_written = False


def replace(owner: "Any", name: str, make: "Any") -> None:
    """Replace a method that `owner` itself defines by `make(the method)`."""
    original = vars(owner).get(name)
    if callable(original):
        replacement = make(original)
        for detail in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(replacement, detail, getattr(original, detail, None))
        setattr(owner, name, unframed(replacement))


def publishing(original: "Any") -> "Any":
    def method(self: "Any", *arguments: "Any", **named: "Any") -> "Any":
        publish(self)
        return original(self, *arguments, **named)

    return method


def may_give_up(arguments: "Any", named: "Any") -> bool:
    """Whether a wait can end by a short time limit: in another run it may, so it orders nothing."""
    for limit in (*arguments, named.get("timeout")):
        # `acquire` and `get` take a boolean too.
        if isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit < PATIENT_S:
            return True
    return False


def absorbing(original: "Any", refusal: "Any" = False) -> "Any":
    def method(self: "Any", *arguments: "Any", **named: "Any") -> "Any":
        result = original(self, *arguments, **named)
        if result is not refusal and not may_give_up(arguments, named):  # it came in time
            absorb(self)
        return result

    return method


def receiving(original: "Any") -> "Any":
    """Absorbs whatever the result is: an item of a queue may be False."""
    return absorbing(original, refusal=receiving)


def absorbing_by_program(original: "Any") -> "Any":
    """Absorbs, unless the event loop calls.

    It takes the result of a pool in a callback, before the task that wants it has awaited it.
    """

    def method(self: "Any", *arguments: "Any", **named: "Any") -> "Any":
        result: Any = False
        try:
            result = original(self, *arguments, **named)
            return result
        except BaseException:
            result = None
            raise
        finally:
            if (
                result is not False
                and not may_give_up(arguments, named)
                and sys._getframe(1).f_globals.get("__name__") != "asyncio.futures"
            ):
                absorb(self)

    return method


def meeting(original: "Any") -> "Any":
    return absorbing(publishing(original))


def starting(original: "Any") -> "Any":
    def start(self: "Any") -> "Any":
        process.begin_threads()
        publish(self)
        self._ci_doctor_start = (thread.number, *place(STARTERS))
        return original(self)

    return start


def running(original: "Any") -> "Any":
    def _bootstrap_inner(self: "Any") -> "Any":
        parent, file, line, module = getattr(self, "_ci_doctor_start", (None, "", 0, ""))
        record("thread", monotonic_ns(), thread.number, str(self.name), parent, file, line, module)
        absorb(self)
        try:
            return original(self)
        finally:
            publish(self)
            if not self.daemon:
                ended[thread.number] = thread.events

    return _bootstrap_inner


def shutting_down(original: "Any") -> "Any":
    def _shutdown(*arguments: "Any", **named: "Any") -> "Any":
        # Python calls it at its end, and so does the end of a process of multiprocessing.
        result = original(*arguments, **named)
        mine = thread.clock
        for number, events in ended.copy().items():
            if number != thread.number and mine.get(number, 0) < events:
                mine[number] = events
                thread.is_clock_written = False
        return result

    return _shutdown


def ending(original: "Any", is_alive: "Any") -> "Any":
    def method(self: "Any", *arguments: "Any", **named: "Any") -> "Any":
        result = original(self, *arguments, **named)
        if (
            getattr(self._started, "_flag", False)
            and not is_alive(self)
            and not may_give_up(arguments, named)
        ):
            absorb(self)
        return result

    return method


def of_threading(threading: "Any") -> None:
    is_alive = threading.Thread.is_alive
    replace(threading.Thread, "start", starting)
    replace(threading.Thread, "_bootstrap_inner", running)
    replace(threading.Thread, "join", lambda original: ending(original, is_alive))
    replace(threading.Thread, "is_alive", lambda original: ending(original, is_alive))
    replace(threading, "_shutdown", shutting_down)
    replace(threading.Event, "set", publishing)
    replace(threading.Event, "wait", absorbing)
    replace(threading.Event, "is_set", absorbing)
    replace(threading.Condition, "notify", publishing)
    replace(threading.Condition, "wait", absorbing)
    replace(threading.Semaphore, "release", publishing)
    replace(threading.Semaphore, "acquire", absorbing)
    replace(threading.BoundedSemaphore, "release", publishing)
    replace(threading.Barrier, "wait", meeting)


def of_thread(low_level: "Any") -> None:
    def begin(original: "Any") -> "Any":
        def start(*arguments: "Any", **named: "Any") -> "Any":
            process.begin_threads()
            return original(*arguments, **named)

        return start

    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        replace(low_level, name, begin)


def of_queue(queue: "Any") -> None:
    replace(queue.Queue, "put", publishing)
    replace(queue.Queue, "get", receiving)
    replace(queue.Queue, "task_done", publishing)
    replace(queue.Queue, "join", receiving)


def waiting_for_all(original: "Any") -> "Any":
    def wait(*arguments: "Any", **named: "Any") -> "Any":
        result = original(*arguments, **named)
        if not may_give_up(arguments, named):
            for future in result.done:
                absorb(future)
        return result

    return wait


def waiting_for_each(original: "Any") -> "Any":
    def as_completed(*arguments: "Any", **named: "Any") -> "Any":
        orders = not may_give_up(arguments, named)
        for future in original(*arguments, **named):
            if orders:
                absorb(future)
            yield future

    return as_completed


def of_futures(base: "Any") -> None:
    replace(base, "wait", waiting_for_all)
    replace(base, "as_completed", waiting_for_each)
    replace(base.Future, "set_result", publishing)
    replace(base.Future, "set_exception", publishing)
    replace(base.Future, "result", absorbing_by_program)
    replace(base.Future, "exception", absorbing_by_program)
    replace(base.Future, "done", absorbing_by_program)


def of_pools(pools: "Any") -> None:
    def made(original: "Any") -> "Any":
        def __init__(self: "Any", *arguments: "Any", **named: "Any") -> None:
            original(self, *arguments, **named)
            publish(self)

        return __init__

    def run(original: "Any") -> "Any":
        def run(self: "Any", *arguments: "Any", **named: "Any") -> "Any":
            absorb(self)
            return original(self, *arguments, **named)

        return run

    replace(pools._WorkItem, "__init__", made)
    replace(pools._WorkItem, "run", run)


WATCHED = {
    "_thread": of_thread,
    "threading": of_threading,
    "queue": of_queue,
    "concurrent.futures._base": of_futures,
    "concurrent.futures.thread": of_pools,
}


def watch(name: str) -> None:
    """Watch the classes of a module that hands things from thread to thread, once it is loaded."""
    if name not in WATCHED:
        return
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is None or getattr(spec, "_initializing", False):
        return
    prepare = WATCHED.pop(name)
    try:
        prepare(module)
    except Exception:  # noqa: BLE001 - in another Python: fewer orders are known
        pass


register_at_fork(after_in_child=ended.clear)

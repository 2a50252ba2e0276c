# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: delays one import, so that a possible race does happen.

This is active testing, after TSVD (Li et al., SOSP 2019). CI_DOCTOR_IMPORT_RACE_HOLD is
`MODE X Y LIMIT`, the limit in seconds. A delay only produces an order of threads that could have
come about by itself: no thread stops for longer than the limit, and each delay is made once.

- `exec X -`: once X is in sys.modules, its code waits until another thread's import statement
  requests X. A statement that requests it too early waits for that moment.
- `together X Y`: a thread that holds X and is about to lock Y waits until another thread holds Y,
  and the other way round.
- `late X Y`: in addition, a thread that is about to lock X and does not hold Y waits until another
  thread, which holds Y, is about to lock X. That one then waits until the first thread is blocked
  on a lock.

In the last two, CPython gives way to the thread that blocks last: its import fails, or it is handed
an incomplete module. In `together` the machine decides which thread this is, in `late` it is the
one that wants X. The thread that loads the incomplete module then waits before it goes on, until
the other one has missed a name.
"""

import sys
from _thread import allocate_lock, get_ident
from os import environ

import _ci_doctor_missing as missing  # type: ignore[import-not-found]
from _ci_doctor_trace import (  # type: ignore[import-not-found]
    event,
    is_ours,
    process,
    thread,
    unframed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

bootstrap: "Any" = sys.modules["_frozen_importlib"]  # importlib._bootstrap
mode, first, second, limit_s = "", "", "", 0.0
is_on = False
done: "set[str]" = set()  # the delays that were made
holders: "dict[str, list[int]]" = {}  # threads that hold the lock of X or Y
about: "set[int]" = set()  # threads that hold Y and are about to lock X
blocked: "set[int]" = set()  # threads that hold X and wait for the lock of Y
asking: "set[int]" = set()  # threads whose import statement requested X during the delay
handed_out: "list[str]" = []  # modules that CPython handed out although they are incomplete
harmed: "list[bool]" = []  # whether a thread has missed a name
waiting: "list[tuple[Any, Any]]" = []  # (condition, lock to release once it is true)


def read(text: str) -> None:
    """Set the hold that `text` describes; none if it cannot be read."""
    global mode, first, second, limit_s, is_on
    words = text.split()
    if len(words) == 4:
        mode, first, second, limit_s = words[0], words[1], words[2], float(words[3])
        is_on = mode in ("exec", "together", "late")


def wait_until(part: str, name: str, condition: "Any") -> None:
    """Wait until the other threads fulfil `condition`, at most the limit, once for each `part`."""
    if part in done:
        return
    done.add(part)
    look()
    gate = allocate_lock()
    gate.acquire()
    entry = (condition, gate)
    waiting.append(entry)
    process.write()
    met = condition() or gate.acquire(True, limit_s)
    waiting.remove(entry)
    event("held", name, int(limit_s * 1e9), bool(met))


def before_statement(name: str) -> None:
    """This thread's import statement requests `name`.

    It is too early for X if another thread holds the lock of X and its code does not run yet. X is
    not in `sys.modules` then, so the statement would take it from there after the wait, and be safe
    by chance.
    """
    is_x = mode == "exec" and name == first
    if is_x and "exec" not in done and others(holders.get(first, ()), get_ident()):
        wait_until("early", name, lambda: "exec" in done)


def look() -> None:
    """Something has changed: release the threads whose condition is true now."""
    for condition, gate in waiting.copy():
        if gate.locked() and condition():
            try:
                gate.release()
            except RuntimeError:
                pass  # another thread was faster


def before_acquire(name: str, by_statement: bool) -> None:
    """This thread is about to lock the module `name`."""
    if name not in (first, second):
        return
    me = get_ident()
    if mode == "exec":
        if by_statement and me not in holders.get(first, ()):
            asking.add(me)
            look()
        return
    held = thread.held
    if name == second and first in held and second not in held:
        wait_until("second", name, lambda: others(holders.get(second, ()), me))
    elif name == first and second in held and first not in held:
        about.add(me)
        look()
        if mode == "late":
            wait_until("first", name, lambda: others(blocked, me))
        else:
            wait_until("first", name, lambda: others(holders.get(first, ()), me))
    elif mode == "late" and name == first and first not in held and second not in held:
        wait_until("late", name, lambda: others(about, me))


def after_acquire(name: str) -> None:
    """This thread has locked the module `name`."""
    if name in (first, second):
        blocked.discard(get_ident())
        holders.setdefault(name, []).append(get_ident())
        look()


def after_release(name: str) -> None:
    """This thread has unlocked the module `name`."""
    if name in (first, second) and get_ident() in holders.get(name, ()):
        holders[name].remove(get_ident())


def after_deadlock(name: str) -> None:
    """CPython lets this thread go on with the incomplete module `name`."""
    if name in (first, second):
        handed_out.append(name)


def after_wait() -> None:
    """This thread has waited for another module, and goes on with its own one now."""
    for name in handed_out:
        if is_ours(name):
            wait_until("incomplete", name, lambda: bool(harmed))


def on_missing() -> None:
    """A thread has missed a name."""
    harmed.append(True)
    look()


def others(threads: "Any", me: int) -> bool:
    """Whether one of `threads` is not `me`."""
    return any(ident != me for ident in tuple(threads))


original_call = bootstrap._call_with_frames_removed
original_deadlock = bootstrap._ModuleLock.has_deadlock


def has_deadlock(self: "Any") -> bool:
    """Stands for the module lock's own, the last that a thread asks before it waits for the lock."""
    if original_deadlock(self):
        return True
    # importlib has noted that this thread waits: from here on a deadlock is seen by the other one.
    if self.name == second and first in thread.held:
        blocked.add(get_ident())
        look()
    return False


class Holding:
    """Stands for the loader of X until its `exec_module` is called.

    `_call_with_frames_removed` is not enough: a loader of the program's own need not call it.
    """

    def __init__(self, spec: "Any") -> None:
        self.spec, self.loader = spec, spec.loader

    def exec_module(self, module: "Any") -> None:
        self.spec.loader = self.loader
        me = get_ident()
        wait_until("exec", first, lambda: others(asking, me))
        self.loader.exec_module(module)


def before_exec(spec: "Any") -> None:
    """The module of `spec` was created, and its code is about to run."""
    if mode == "exec" and spec.name == first and hasattr(spec.loader, "exec_module"):
        spec.loader = Holding(spec)


def _call_with_frames_removed(f: "Any", *args: "Any", **kwds: "Any") -> "Any":
    """Stands for importlib's, through which the code of each module is executed."""
    if f is exec and len(args) > 1 and args[1].get("__name__") == first:
        me = get_ident()
        wait_until("exec", first, lambda: others(asking, me))
    return original_call(f, *args, **kwds)


try:
    read(environ.get("CI_DOCTOR_IMPORT_RACE_HOLD", ""))
except ValueError:
    is_on = False
if is_on:
    missing.when_missed.append(on_missing)
if is_on and mode == "late":
    bootstrap._ModuleLock.has_deadlock = unframed(has_deadlock)
if is_on and mode == "exec":
    unframed(Holding.exec_module)
    bootstrap._call_with_frames_removed = unframed(_call_with_frames_removed)

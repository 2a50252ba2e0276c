# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: notices what this recorder cannot judge.

All greenlets of an operating system thread look like this one thread. If a second greenlet imports
what was not complete before the first switch, the order of the two is not known.
"""

import builtins
import sys
from os import register_at_fork

import _ci_doctor_order as order  # type: ignore[import-not-found]
from _ci_doctor_trace import (  # type: ignore[import-not-found]
    absolute,
    is_initialising,
    process,
    record,
    thread,
    unframed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ModuleType = type(sys)
modules: "dict[str, Any]" = sys.modules
current: "Any" = None  # greenlet.getcurrent, once greenlet is loaded
kind: "Any" = None  # the class greenlet.greenlet
reference: "Any" = None  # weakref.ref: greenlets must not live longer because of us
first: "dict[int, Any]" = {}  # by thread, the greenlet that has imported first
complete: "frozenset[str]" = frozenset()  # modules loaded before greenlets can exist
recorded: "set[str]" = set()


def unjudged(why: str) -> None:
    """Nothing is known of this process, whatever else its trace holds."""
    if why not in recorded:
        recorded.add(why)
        record("unjudged", why)
        process.write()


def note(name: str) -> None:
    """The running greenlet requests `name`."""
    if name in complete:
        return
    try:
        greenlet = current()
        # By our number: a new thread may get the identity of one that has ended.
        known = first.get(thread.number)
        if known is None:
            first[thread.number] = reference(greenlet)
        elif known() is not greenlet:
            unjudged("greenlets")
    except Exception:  # noqa: BLE001 - a greenlet of another kind
        unjudged("greenlets")


def watch(name: str, module: "Any") -> None:
    """`module` has been loaded as `name`: follow the threads or greenlets that it brings."""
    order.watch(name)
    # Others than plain modules may import more when they are looked at.
    if type(module) is ModuleType and "getcurrent" in module.__dict__:
        look(module.__dict__)


def look(names: "dict[str, Any]") -> None:
    """Follow the greenlets of a module, whatever its name: a package may bundle one of its own.

    A second implementation cannot be followed as well: its greenlets are not those of the first.
    """
    made = names.get("greenlet")
    if not isinstance(made, type) or not hasattr(made, "switch"):
        return
    if current is None:
        of_greenlet(names["getcurrent"], made, str(names.get("__package__") or ""))
    elif not issubclass(made, kind):
        unjudged("greenlets")


def of_greenlet(getcurrent: "Any", made: "Any", package: str) -> None:
    """From here on there may be greenlets, so each import statement counts."""
    global current, kind, reference, complete
    from _weakref import ref

    reference = ref
    complete = frozenset(
        name for name in modules if name == package or not is_initialising(modules[name])
    )
    process.begin_threads()
    current, kind = getcurrent, made
    # This one may be in the middle of an import.
    first[thread.number] = reference(current())
    builtins.__import__ = unframed(noting(builtins.__import__))


def noting(original: "Any") -> "Any":
    def __import__(
        name: str, globals: "Any" = None, locals: "Any" = None, fromlist: "Any" = (), level: int = 0
    ) -> "Any":
        note(absolute(name, globals, level))
        return original(name, globals, locals, fromlist, level)

    return __import__


def of_stacks(module: "Any") -> None:
    """A module that switches stacks in a way of its own."""
    unjudged(str(getattr(module, "__name__", "")))


register_at_fork(after_in_child=first.clear)
for _name in ("_continuation", "stackless", "fibers"):
    order.WATCHED[_name] = of_stacks
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    unjudged("free threading")

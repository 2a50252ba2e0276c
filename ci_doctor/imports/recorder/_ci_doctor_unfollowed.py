# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: records what this recorder cannot follow or judge.

It cannot follow a Python whose options or environment keep it out. It cannot judge greenlets: all of an operating system
thread look like this one thread. If a second greenlet imports what was not complete before the first switch, the order of
the two is not known.
"""

import builtins
import sys
from os import environ, register_at_fork
from time import monotonic_ns

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

# The positions of a new process's arguments and environment in the values of an audit event
# (docs.python.org/3/library/audit_events.html).
STARTS = {
    "subprocess.Popen": (1, 3),
    "os.exec": (1, 2),
    "os.posix_spawn": (1, 2),
    "os.system": (0, None),
}
ISOLATING = "IES"  # PYTHONPATH is not read, or site not run
LAST = "cm"  # what follows belongs to the program
WITH_VALUE = "WX"
CLEANING = ("-", "-i", "--ignore-environment")
# The folder of the sitecustomize that loaded this: it must be on a child's PYTHONPATH.
FOLDER = str(getattr(sys.modules.get("sitecustomize"), "__file__", "")).rpartition("/")[0]
last: "list[str]" = []  # the newest command line that was recorded


def on_audit(name: str, values: "tuple[Any, ...]") -> None:
    """The audit hook: returns at once, unless a process starts."""
    if name in STARTS:
        arguments, environment = STARTS[name]
        try:
            note_start(values[arguments], None if environment is None else values[environment])
        except Exception:  # noqa: BLE001 - arguments of any kind
            pass


def note_start(arguments: "Any", environment: "Any") -> None:
    """Record the new process if it is a Python that escapes.

    Without an environment of its own it has ours, as it is now.
    """
    if isinstance(arguments, (str, bytes)):
        words = text(arguments).split()
    else:
        words = [text(word) for word in arguments]
    if len(words) > 2 and words[1] == "-c" and words[0].endswith("sh"):
        words = words[2].split()
    start = 0
    while start < len(words) and not is_python(words[start]):
        start += 1
    if start == len(words):
        return
    if environment is None:
        environment = environ
    why = isolation(words[start + 1 :]) or lost(words[:start], environment)
    # subprocess raises two audit events for one start: its own and that of posix_spawn.
    if why is not None and words != last:
        last[:] = words
        record("escape", monotonic_ns(), thread.number, tuple(words), why)
        process.write()


def is_python(word: str) -> bool:
    """Whether a program's name is that of a Python."""
    name = word.rpartition("/")[2]
    return name.startswith("python") and not name[6:].strip("0123456789.t")


def isolation(options: "list[str]") -> "str | None":
    """The first option that keeps the recorder out; None without one."""
    skip = False
    for word in options:
        if skip:
            skip = False
            continue
        if not word.startswith("-") or word in ("-", "--"):
            return None
        for index, letter in enumerate(word[1:], 2):
            if letter in ISOLATING:
                return "-" + letter
            if letter in LAST or word.startswith("--"):
                return None
            if letter in WITH_VALUE:
                skip = index == len(word)
                break
    return None


def lost(before: "list[str]", environment: "Any") -> "str | None":
    """Why a new process does not find the recorder by its environment; None if it does.

    before: the words of the command line before the Python, such as `env -i`.
    """
    program = before[0].rpartition("/")[2] if before else ""
    if program == "sudo" or (program == "env" and any(word in CLEANING for word in before)):
        return "clean environment"
    # The audit event of subprocess has a mapping, those of the others may have one of bytes.
    variables = {text(name): text(environment[name]) for name in environment}
    if "CI_DOCTOR_INJECT" not in variables:
        return "clean environment"
    if FOLDER and FOLDER not in variables.get("PYTHONPATH", "").split(":"):
        return "PYTHONPATH of its own"
    return None


def text(word: "Any") -> str:
    """A word of a command line, given as text, bytes or a path."""
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)


def of_spawning(util: "Any") -> None:
    """`multiprocessing` starts its processes by a C function that raises no audit event."""

    def noting(original: "Any") -> "Any":
        def spawnv_passfds(path: "Any", arguments: "Any", descriptors: "Any") -> "Any":
            on_audit("os.exec", (path, arguments, None))
            return original(path, arguments, descriptors)

        return spawnv_passfds

    order.replace(util, "spawnv_passfds", noting)


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


order.WATCHED["multiprocessing.util"] = of_spawning
sys.addaudithook(on_audit)
register_at_fork(after_in_child=first.clear)
for _name in ("_continuation", "stackless", "fibers"):
    order.WATCHED[_name] = of_stacks
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    unjudged("free threading")

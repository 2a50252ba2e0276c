# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: what happens before what, in vector clocks (Mattern 1989), and what nobody can follow.

The clock of a thread has, for each other thread, how many of its events came before the next event
here. It follows the start and the end of threads, and what hands something from one thread to
another: Event, Condition, Semaphore, Barrier, Queue, and the futures of thread pools. Two threads
can take a plain lock in the opposite order in another run, so a lock orders nothing.

It cannot follow a Python whose options or environment keep it out. It cannot judge greenlets: all of an operating system
thread look like this one thread. If a second greenlet imports what was not complete before the first switch, the order of
the two is not known.
"""

import builtins
import sys
from os import environ, register_at_fork
from time import monotonic_ns

from _ci_doctor_trace import (  # type: ignore[import-not-found]
    STARTERS,
    absolute,
    is_initialising,
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
            record("ended", monotonic_ns(), thread.number)
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


def watch_class(name: str) -> None:
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

    replace(util, "spawnv_passfds", noting)


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
    watch_class(name)
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


WATCHED["multiprocessing.util"] = of_spawning
sys.addaudithook(on_audit)
register_at_fork(after_in_child=ended.clear)
register_at_fork(after_in_child=first.clear)
for _name in ("_continuation", "stackless", "fibers"):
    WATCHED[_name] = of_stacks
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    unjudged("free threading")

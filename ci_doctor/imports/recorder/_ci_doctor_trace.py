# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: the state of the threads of this process, and the trace it writes.

Imports only what every start of Python has loaded. Keeps its own references to what it calls, so
that a program which replaces functions of `time` or `os` (gevent, freezegun) changes nothing here.
`ci_doctor/imports/trace.py` reads what this writes.
"""

import atexit
import sys
from _thread import _local, allocate_lock, get_ident
from os import environ, register_at_fork
from posix import (
    O_APPEND,
    O_CLOEXEC,
    O_CREAT,
    O_WRONLY,
    chmod,
    close,
    getpid,
    getppid,
    getuid,
    write,
)
from posix import open as open_file
from time import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

is_finalizing = sys.is_finalizing
DIRECTORY = environ.get("CI_DOCTOR_IMPORT_RACE", "")
# Lines wait in memory until there are this many, an outermost import ends, or a thread waits.
BUFFERED = 256
URGENT = ("wait", "deadlock")  # the program may end right after these
SKIPPED = (
    "importlib",
    "_frozen_importlib",
    "_frozen_importlib_external",
    "zipimport",
    "_ci_doctor_",
)
STARTERS = (*SKIPPED, "threading", "concurrent.", "asyncio.", "multiprocessing.", "_thread")

when_threaded: "list[Any]" = []  # called before the first thread but the main one starts
numbers: "dict[int, int]" = {}  # of threads, by their identity


class Thread(_local):
    """What one thread knows; its attributes are made when the thread first looks."""

    def __init__(self) -> None:
        self.number = process.next_number()
        self.events = 0
        self.loading: list[Any] = []  # of modules, the outermost first; see `begin`
        self.held: list[str] = []  # modules whose locks it holds; only filled if there is a hold
        self.requested: set[str] = set()  # what the innermost loading module has requested
        self.clock: dict[int, int] = {}  # how many events of each other thread came before
        self.is_clock_written = True
        self.handed_out: Any = None  # what C code returns after it has waited
        self.waits = 0
        numbers[get_ident()] = self.number

    def restart(self) -> None:
        """Become the first thread of a forked child."""
        self.__init__()  # type: ignore[misc]


class Process:
    """The trace of one process: lines wait in `lines` until they are written."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin the trace of this process, which may be a forked child.

        Lines are formatted when they are written, all at once.
        """
        self.count = 0
        # What happens before the first thread starts comes before everything that other threads do.
        # So until then only requests that load a module are recorded, and those are few.
        self.is_threaded = False
        self.lines: list[Any] = []
        self.lock = allocate_lock()
        self.writer = 0
        self.pid = getpid()
        self.path = "%s/%d-%d.trace" % (DIRECTORY, self.pid, monotonic_ns())

    def next_number(self) -> int:
        """0 for the first thread; never the same twice."""
        number = self.count
        self.count += 1
        if number > 0:
            self.begin_threads()
        return number

    def begin_threads(self) -> None:
        """From here on there may be more than one thread."""
        if not self.is_threaded:
            self.is_threaded = True
            for function in when_threaded:
                function()

    def write(self, surely: bool = False) -> None:
        """Write what waits, into a file opened anew each time.

        A program that closes all file descriptors must neither lose nor gain one.
        surely: also if another thread is writing. When the program ends, that thread may never
        finish.
        """
        # Until Python 3.11, a subinterpreter that is alive at the end runs its `atexit` after the
        # runtime has begun to finalize. Who gives up the GIL then, as each system call does, never
        # gets it back: the main thread ends there, and the process with status 0.
        if is_finalizing():
            return
        if not self.lock.acquire(False):
            # The writer is this thread if a signal handler has interrupted this very function.
            if not surely or self.writer == get_ident():
                return
            if not self.lock.acquire(True, 1.0):
                return
        self.writer = get_ident()
        try:
            waiting = len(self.lines)
            data = "".join([ascii(line) + "\n" for line in self.lines[:waiting]]).encode()
            del self.lines[:waiting]
            file = open_file(self.path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
            try:
                while data:
                    data = data[write(file, data) :]
            finally:
                close(file)
        except OSError:
            pass  # a full disk, or a directory that is gone: the program goes on
        finally:
            self.writer = 0
            self.lock.release()


process = Process()
thread = Thread()
is_armed = False


def record(kind: str, *values: "Any") -> None:
    """Add a record that is no event of a thread."""
    process.lines.append((kind, *values))


def event(kind: str, *values: "Any") -> None:
    """Add the next event of this thread: its time, thread and number come first."""
    if not thread.is_clock_written:
        thread.is_clock_written = True
        record("order", thread.number, dict(thread.clock))
    thread.events += 1
    process.lines.append((kind, monotonic_ns(), thread.number, thread.events, *values))
    if kind in URGENT:
        process.write(surely=True)
    elif len(process.lines) >= BUFFERED or (
        not thread.loading and (kind == "end" or process.is_threaded)
    ):
        process.write()


def place(skipped: "tuple[str, ...]" = SKIPPED, frame: "Any" = None) -> "tuple[str, int, str]":
    """File, line and module of the innermost frame whose module name does not begin with `skipped`.

    frame: where to start; without it, at the caller of the caller.
    """
    try:
        chosen = frame = frame or sys._getframe(2)
    except ValueError:  # C code imports, and no Python code runs
        return "", 0, ""
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if not str(name).startswith(skipped) and not frame.f_code.co_filename.startswith(
            "<frozen "
        ):
            chosen = frame
            break
        frame = frame.f_back
    name = str(chosen.f_globals.get("__name__"))
    if name == "__main__":
        spec = chosen.f_globals.get("__spec__")
        name = "__main__:" + spec.name if spec is not None else name
    return chosen.f_code.co_filename, chosen.f_lineno or 0, name


def absolute(name: str, globals: "Any", level: int) -> str:
    """The absolute name of a relative import; the name as it is if nobody knows the package."""
    if not level:
        return name
    package = (globals or {}).get("__package__") or (globals or {}).get("__name__") or ""
    bits = str(package).rsplit(".", level - 1)
    return bits[0] + "." + name if name else bits[0]


def is_initialising(module: "Any") -> bool:
    """Whether a thread executes `module` now."""
    try:
        return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
    except Exception:  # noqa: BLE001 - sys.modules may hold anything
        return False


def is_ours(name: str) -> bool:
    """Whether this thread is the one that initialises `name`."""
    return any(entry[0] == name for entry in thread.loading)


def can_start_threads(module: "Any") -> bool:
    """Whether C code of the program's own may start threads, which no function of Python starts.

    Of the standard library's extension modules, only ctypes does.
    """
    if type(getattr(module, "__loader__", None)).__name__ != "ExtensionFileLoader":
        return False
    return module.__name__ == "_ctypes" or "lib-dynload" not in str(module.__loader__.path)


def depth(lock: "Any") -> int:
    """How many times its owner holds a module lock: a number before Python 3.12, then a list."""
    count = lock.count
    return count if isinstance(count, int) else len(count)


def unframed(function: "Any") -> "Any":
    """`function`, with a file name by which CPython takes it for a part of the import system.

    CPython leaves such frames out of tracebacks and warnings.
    """
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    return function


def begin(forked: bool) -> None:
    """Write who this process is, and its first thread."""
    facts = {
        "executable": sys.executable or "",
        "argv": tuple(getattr(sys, "orig_argv", ())) or tuple(getattr(sys, "argv", ())),
        "version": "%d.%d.%d" % sys.version_info[:3],
        "forked": forked,
        "threading": "threading" in sys.modules,
    }
    record("process", monotonic_ns(), process.pid, getppid(), facts)
    record("thread", monotonic_ns(), thread.number, "MainThread", None, "", 0, "")
    process.write()
    if getuid() == 0:
        try:
            # The process may continue as another user. No other user can guess the path.
            chmod(process.path, 0o666)
        except OSError:
            pass


def arm() -> None:
    """Record that everything is watched.

    Without this record nothing is known of the process, even if its trace shows no problem.
    """
    global is_armed
    is_armed = True
    record("armed", monotonic_ns())
    process.write()


def after_fork() -> None:
    """A forked child has one thread, and nothing of the parent's waits to be written."""
    numbers.clear()
    process.restart()
    thread.restart()
    begin(forked=True)
    if is_armed:
        arm()


def end() -> None:
    """Record that the interpreter ends in the ordinary way."""
    record("exit", monotonic_ns())
    process.write(surely=True)


begin(forked=False)
register_at_fork(after_in_child=after_fork)
atexit.register(end)

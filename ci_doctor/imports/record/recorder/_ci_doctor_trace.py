# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: what this process knows of its threads, and the trace that it writes.

Imports nothing that a start of Python has not loaded, and keeps its own references to what it calls, so that a program
which replaces `time` or `os` functions (gevent, freezegun) changes nothing here. The form of the trace is in trace.py.
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

DIRECTORY = environ.get("CI_DOCTOR_IMPORT_RACE", "")
# A line is on disk at the latest with this many others, when an import ends, and before a thread waits.
BUFFERED = 256
URGENT = ("wait", "deadlock")  # what the program may end by
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
        self.held: list[
            str
        ] = []  # names of the module locks that it holds; kept where a hold needs them
        self.seen: set[str] = set()  # what was asked for within the innermost of these
        self.known: dict[int, int] = {}  # how many events of each other thread came before
        self.is_known_written = True
        self.handed_out: Any = None  # what C code returns when it has waited
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
        """Begin the trace of this process, which may be a forked child. Lines are formatted when they are written, all at once."""
        self.count = 0
        # Until a thread is started all that happens comes before all that other threads will do, so who asks for what is
        # written for modules that are loaded then, and not for the others, which are most.
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
        """Write what waits. The file is opened each time: a program that closes all descriptors must not lose or gain one.

        surely: also where another thread is at it, which may never come back to it when the program ends.
        """
        if not self.lock.acquire(False):
            if (
                not surely or self.writer == get_ident()
            ):  # a signal handler has interrupted this very function
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
    if not thread.is_known_written:
        thread.is_known_written = True
        record("order", thread.number, dict(thread.known))
    thread.events += 1
    process.lines.append((kind, monotonic_ns(), thread.number, thread.events, *values))
    if kind in URGENT:
        process.write(surely=True)
    elif len(process.lines) >= BUFFERED or (
        not thread.loading and (kind == "end" or process.is_threaded)
    ):
        process.write()


def place(skipped: "tuple[str, ...]" = SKIPPED, frame: "Any" = None) -> "tuple[str, int, str]":
    """File, line and module of `frame`, or of the innermost frame that is not of a module named like one of `skipped`."""
    try:
        found = frame = frame or sys._getframe(2)
    except ValueError:  # C code imports, with no Python code that runs
        return "", 0, ""
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if not str(name).startswith(skipped) and not frame.f_code.co_filename.startswith(
            "<frozen "
        ):
            found = frame
            break
        frame = frame.f_back
    name = str(found.f_globals.get("__name__"))
    if name == "__main__":
        spec = found.f_globals.get("__spec__")
        name = "__main__:" + spec.name if spec is not None else name
    return found.f_code.co_filename, found.f_lineno or 0, name


def unframed(function: "Any") -> "Any":
    """`function`, whose frames CPython takes for the import system's own: it leaves them out of tracebacks and warnings."""
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
            chmod(
                process.path, 0o666
            )  # it may go on as another user; nobody else can guess where the file lies
        except OSError:
            pass


def arm() -> None:
    """All that is to be watched is watched. Without this record nothing is known of the process, however quiet its trace."""
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
    """The interpreter ends in the ordinary way."""
    record("exit", monotonic_ns())
    process.write(surely=True)


begin(forked=False)
register_at_fork(after_in_child=after_fork)
atexit.register(end)

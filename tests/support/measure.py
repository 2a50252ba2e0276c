# SPDX-License-Identifier: Apache-2.0
"""Acts on its own interpreter: records which lines a Python runs that runs ci-doctor or tests of it, and no other.

tests/run.sh has every Python of its environment run this at start-up. Most Pythons that tests start are servers,
victims and bystanders without a line of ci-doctor in them: for them all this is one look at the command line.

It drives the tracer of coverage without coverage itself. To import coverage, to have it judge 700 files and write a
database takes 300 ms, some 1,500 times; this takes 20. tests/support/measured.py makes coverage's own data of it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any, NoReturn

_SCRIPTS = {"ci-doctor", "pytest", "holds_a_guardian.py"}
_MODULES = {"ci_doctor", "pytest"}
_started: list[Recorder] = []
# Workers of xdist and of multiprocessing, and tests' own programs that use the library.
_IN_PROGRAMS = ("sys.stdin.readline", "multiprocessing", "ci_doctor")


def runs_ours(words: Sequence[str]) -> bool:
    """Whether a Python with these arguments runs ci-doctor or tests of it.

    Only what is run counts: a folder of pytest's, or a checkout that is named ci-doctor, is among the arguments of
    most servers.
    """
    option = ""
    for word in words:
        if option in {"-W", "-X"}:
            option = ""
        elif option.endswith("c"):
            return any(mark in word for mark in _IN_PROGRAMS)
        elif option.endswith("m"):
            return word.partition(".")[0] in _MODULES
        elif word.startswith("-"):
            option = word
        else:
            return os.path.basename(word) in _SCRIPTS  # noqa: PTH119 -- most Pythons here have no pathlib
    return False


class Recorder:
    """What coverage's Collector is to its tracers: it owns what they record, and starts one in each thread."""

    def __init__(self, library: Any, root: str) -> None:
        self.library = library
        self.root = os.path.join(root, "")  # noqa: PTH118
        self.package = os.path.join(root, "ci_doctor", "")  # noqa: PTH118
        self.records = os.path.join(root, ".coverage")  # noqa: PTH118
        self.data: dict[str, set[int]] = {}
        self.dispositions: dict[str, Any] = {}
        # A tracer that is let go of ends the tracing of whatever thread lets it go.
        self.tracers: list[Any] = []

    def start(self) -> Any:
        """Trace this thread; the trace function."""
        tracer = self.library.CTracer()
        self.tracers.append(tracer)
        tracer.data = self.data
        tracer.trace_arcs = True
        tracer.should_trace = self.disposition
        tracer.should_trace_cache = self.dispositions
        tracer.file_tracers = {}
        tracer.check_include = tracer.should_start_context = tracer.switch_context = None
        tracer.concur_id_func = tracer.disable_plugin = None
        tracer.lock_data = tracer.unlock_data = tracer.warn = _nothing
        return tracer.start()

    def start_in_thread(self, frame: FrameType, event: str, argument: object) -> Any:
        """The first event of a new thread: the tracer takes over, and is handed this event."""
        sys.settrace(None)
        return self.start()(frame, event, argument)

    def pause_in_foreign_imports(self) -> None:
        """From now on no thread is traced while it imports a module of others.

        What is not recorded costs as well: an interpreter that traces takes twice as long for every instruction, and
        most of what a ci-doctor does at its start is to run the modules of others.
        """
        from importlib.machinery import SourceFileLoader

        loader: Any = SourceFileLoader
        original = loader.exec_module

        def exec_module(self_: Any, module: Any) -> None:
            tracer = sys.gettrace()
            if self.may_call_ours(self_.path) or not isinstance(tracer, self.library.CTracer):
                original(self_, module)
                return
            sys.settrace(None)
            try:
                original(self_, module)
            finally:
                tracer.start()

        loader.exec_module = exec_module

    def may_call_ours(self, path: str) -> bool:
        """Whether a module at `path` is of the checkout: ours, or a test, which imports and calls what is ours."""
        return path.startswith(self.root) and "/site-packages/" not in path

    def disposition(self, path: str, _: FrameType) -> Any:
        """Whether a file is traced, in the tracer's own form; it asks once for each file."""
        disposition = self.library.CFileDisposition()
        disposition.original_filename = path
        disposition.canonical_filename = path
        disposition.source_filename = path
        disposition.trace = path.startswith(self.package)
        disposition.file_tracer = None
        disposition.has_dynamic_filename = False
        return disposition

    def save(self) -> None:
        """Write a record, or none where there is no room for it; what runs later is a record of its own."""
        import marshal

        path = f"{self.records}.{os.urandom(8).hex()}"
        try:
            # Whole or not at all: whoever writes it may be killed.
            with open(f"{path}.part", "wb") as file:  # noqa: PTH123
                file.write(marshal.dumps(self.data))
            os.rename(f"{path}.part", f"{path}.arcs")  # noqa: PTH104
        except OSError:
            return
        for arcs in self.data.values():
            arcs.clear()


def _nothing(*_: object) -> None:
    pass


def _library() -> Any:
    """The tracer of coverage, without the package around it."""
    from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec

    folder = os.path.join(os.path.dirname(__file__), "coverage")  # noqa: PTH118, PTH120
    (path,) = (
        each.path
        for each in os.scandir(folder)
        if each.name in {f"tracer{suffix}" for suffix in EXTENSION_SUFFIXES}
    )
    loader = ExtensionFileLoader("coverage.tracer", path)
    library = loader.create_module(ModuleSpec("coverage.tracer", loader, origin=path))
    loader.exec_module(library)
    return library


def _save_before(recorder: Recorder, name: str) -> None:
    """Have `os.NAME`, which ends this program without its exit handlers, save a record first."""
    original = getattr(os, name)

    def leave(*arguments: Any) -> NoReturn:
        recorder.save()
        original(*arguments)
        raise AssertionError

    setattr(os, name, leave)


def save_now() -> None:
    """Save what was recorded, of a Python that somebody may kill before its exit handlers have run."""
    for recorder in _started:
        recorder.save()


def start() -> None:
    """Record what this Python runs from now on, if it is one that counts and MEASURE_COVERAGE names the checkout."""
    root = os.environ.get("MEASURE_COVERAGE")
    # A .pth file is run once for each time that its folder is named.
    if root is None or _started or not runs_ours(sys.orig_argv[1:]):
        return
    import atexit
    import threading

    recorder = Recorder(_library(), os.path.realpath(root))
    _started.append(recorder)
    atexit.register(recorder.save)
    for name in ("_exit", "execv", "execve"):
        _save_before(recorder, name)
    threading.settrace(recorder.start_in_thread)
    recorder.start()
    recorder.pause_in_foreign_imports()

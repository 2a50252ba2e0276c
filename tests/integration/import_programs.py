# SPDX-License-Identifier: Apache-2.0
"""Small programs that import across threads: racy ones that do not fail by themselves, and safe ones that never can.

In a racy program the second thread imports once the first one is done, or after GAP_S, whichever comes first, and nothing
that a detector may take for an order (no join, no event) stands between the two.
"""

import sys
import textwrap
import zipfile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

GAP_S = 0.4

PACED = f"""
import time

done = []

def gap():
    deadline = time.monotonic() + {GAP_S}
    while not done and time.monotonic() < deadline:
        time.sleep(0.002)
"""

# Replaces itself at its end, as transformers does: a thread that waits for it is given the discarded object.
LAZY = """
import sys, types

class Lazy(types.ModuleType):
    def __getattr__(self, name):
        if name == "Thing":
            return type(name, (), {})
        raise AttributeError(name)

lazy = Lazy(__name__)
lazy.__file__, lazy.__spec__ = __file__, __spec__
if "__path__" in globals():
    lazy.__path__ = __path__
sys.modules[__name__] = lazy
"""

MODULES = {
    "paced.py": PACED,
    "lazypkg/__init__.py": LAZY,
    # Replaces itself by an object that has the same names.
    "twin.py": "import sys, types\nvalue = 1\ntwin = types.ModuleType(__name__)\n"
    "twin.__dict__.update(globals())\nsys.modules[__name__] = twin\n",
    "outer/__init__.py": "",
    "outer/lazy.py": LAZY,
    "cycle_a.py": "import cycle_b\nname_a = 1\n",
    "cycle_b.py": "import cycle_a\nname_b = 1\n",
    "ring_a.py": "import ring_b\nname = 1\n",
    "ring_b.py": "import ring_c\nname = 1\n",
    "ring_c.py": "import ring_a\nname = 1\n",
    "pkg/__init__.py": "from pkg import sub\nname = 1\n",
    "pkg/sub.py": "value = 1\n",
    "broken.py": "value = 1\nraise ImportError('an optional library is not there')\n",
    "plain_a.py": "import plain_b\nvalue = 1\n",
    "plain_b.py": "value = 1\n",
}


class Program(Struct, frozen=True, kw_only=True):
    """`text` is main.py, `words` follow the interpreter; `kind` is None for a safe one. `modules` are what its hazard names."""

    name: str
    text: str
    words: tuple[str, ...] = ("main.py",)
    kind: str | None = None
    modules: frozenset[str] = frozenset()
    zipped: bool = False

    def write(self, directory: Path) -> Path:
        """Write the program and every module into `directory`, and return that."""
        for name, text in {**MODULES, "main.py": self.text}.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        if self.zipped:
            with zipfile.ZipFile(directory / "app.pyz", "w") as archive:
                archive.write(directory / "main.py", "__main__.py")
                for name in MODULES:
                    archive.write(directory / name, name)
        return directory


def _threaded(background: str, foreground: str) -> str:
    """A thread imports first, the main thread once it is done."""
    return f"""
import threading
from paced import done, gap

def background():
    {background}
    done.append(1)

if __name__ == "__main__":
    threading.Thread(target=background).start()
    gap()
    {foreground}
    print("fine")
"""


def _main_first(background: str, foreground: str) -> str:
    """The main thread imports first, a thread that was started before once it is done."""
    return f"""
import threading
from paced import done, gap

def background():
    gap()
    {background}
    print("fine")

if __name__ == "__main__":
    threading.Thread(target=background).start()
    {foreground}
    done.append(1)
"""


def _in_a_child(method: str) -> str:
    """A child process of multiprocessing whose threads race."""
    return f"""
import multiprocessing, sys, threading

def background():
    import lazypkg
    from paced import done
    done.append(1)

def child():
    from paced import gap
    threading.Thread(target=background).start()
    gap()
    from lazypkg import Thing
    print("fine")

if __name__ == "__main__":
    process = multiprocessing.get_context({method!r}).Process(target=child)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


_LAZY = _threaded("import lazypkg", "from lazypkg import Thing")
_SELF = "self-replacing package"
_CYCLE = "import cycle"
_ORDER = "submodule order"
_FAILED = "failed import"
_TRIED = "try:\n        import broken; broken.value\n    except ImportError:\n        pass"


def _racy(kind: str, modules: str, texts: dict[str, str]) -> list[Program]:
    """A program for each text, with a hazard of that kind that names `modules`."""
    named = frozenset(modules.split())
    return [Program(name=name, text=text, kind=kind, modules=named) for name, text in texts.items()]


def _replaced(name: str, text: str, *words: str, zipped: bool = False) -> Program:
    """A program that is started by other words."""
    (program,) = _racy(_SELF, "lazypkg", {name: text})
    return replace(program, words=words, zipped=zipped)


_CHILD_RUN = f"""
import os, subprocess, sys
if os.environ.get("IN_CHILD") != "1":
    sys.exit(subprocess.run([sys.executable, __file__], env={{**os.environ, "IN_CHILD": "1"}}).returncode)
{_LAZY}
"""


_TO_THREAD = """
import asyncio
from paced import done

def background():
    import lazypkg
    done.append(1)

async def main():
    loop = asyncio.get_running_loop()
    task = loop.run_in_executor(None, background)
    deadline = loop.time() + 0.4
    while not done and loop.time() < deadline:
        await asyncio.sleep(0.002)
    from lazypkg import Thing
    await task
    print("fine")

asyncio.run(main())
"""

# The main thread asks while the module is still looked for, and so looks at sys.modules after it has waited: safe by chance.
_EARLY = """
import sys, threading, time

looking = []

class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "lazypkg":
            looking.append(1)
            time.sleep(0.2)

def background():
    import lazypkg

if __name__ == "__main__":
    sys.meta_path.insert(0, Slow)
    threading.Thread(target=background).start()
    while not looking:
        time.sleep(0.002)
    from lazypkg import Thing
    print("fine")
"""

# Python waits for its threads, and for those of pools, before it calls what atexit holds.
_AT_EXIT = """
import atexit, threading
from paced import done, gap

def background():
    import lazypkg
    done.append(1)

def at_exit():
    gap()
    from lazypkg import Thing
    print("fine")

atexit.register(at_exit)
threading.Thread(target=background, daemon={daemon}).start()
"""
# A thread that C code starts: nothing in Python tells of it before it imports.
_IN_C = """
import ctypes
from paced import done, gap

@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def background(_):
    gap()
    from lazypkg import Thing
    print("fine")
    return 0

thread = ctypes.c_ulong()
library = ctypes.CDLL(None)
library.pthread_create(ctypes.byref(thread), None, background, None)
import lazypkg
done.append(1)
library.pthread_join(thread, None)
"""
_FORKED_IN_A_THREAD = """
import os, sys, threading
from paced import done, gap

def background():
    import lazypkg
    done.append(1)

def forking():
    child = os.fork()
    if child == 0:
        threading.Thread(target=background).start()
        gap()
        from lazypkg import Thing
        print("fine", flush=True)
        os._exit(0)
    os.waitpid(child, 0)

if __name__ == "__main__":
    thread = threading.Thread(target=forking)
    thread.start()
    thread.join()
"""

RACY = (
    *_racy(
        _SELF,
        "lazypkg",
        {
            "replaced, thread first": _LAZY,
            "replaced, main first": _main_first("from lazypkg import Thing", "import lazypkg"),
            "replaced, main too early": _EARLY,
            "replaced, asyncio thread": _TO_THREAD,
            "replaced, daemon thread": _LAZY.replace("=background)", "=background, daemon=True)"),
            "replaced, spawn child": _in_a_child("spawn"),
            "replaced, forkserver child": _in_a_child("forkserver"),
            "replaced, subprocess": _CHILD_RUN,
            "replaced, daemon at exit": _AT_EXIT.replace("{daemon}", "True"),
            "replaced, thread of C code": _IN_C,
            "replaced, forked in a thread": _FORKED_IN_A_THREAD,
        },
    ),
    _replaced("replaced, zipapp", _LAZY, "app.pyz", zipped=True),
    _replaced("replaced, -m", _LAZY, "-m", "main"),
    _replaced("replaced, -c", "", "-c", textwrap.dedent(_LAZY)),
    *_racy(
        _CYCLE,
        "cycle_a cycle_b",
        {
            "cycle, thread at a": _threaded("import cycle_a", "import cycle_b"),
            "cycle, thread at b": _threaded("import cycle_b", "import cycle_a"),
        },
    ),
    *_racy(
        _CYCLE,
        "ring_a ring_b ring_c",
        {"cycle of three, a and c": _threaded("import ring_a", "import ring_c")},
    ),
    *_racy(
        _ORDER,
        "pkg pkg.sub",
        {
            "submodule, thread at submodule": _threaded("import pkg.sub", "import pkg"),
            "submodule, thread at package": _threaded("import pkg", "import pkg.sub"),
            "submodule, main first": _main_first("import pkg.sub", "import pkg"),
        },
    ),
    *_racy(
        _FAILED,
        "broken",
        {"failed import": _threaded(_TRIED.replace("; broken.value", ""), _TRIED)},
    ),
)


def _ordered(
    start: str, wait: str, *, first: str = "import lazypkg", then: str = "from lazypkg import Thing"
) -> str:
    return f"""
import queue, threading
from concurrent.futures import ThreadPoolExecutor
event, box = threading.Event(), queue.Queue()

def background():
    {first}
    event.set()
    box.put(1)

if __name__ == "__main__":
    {start}
    {wait}
    {then}
    print("fine")
"""


_START = "thread = threading.Thread(target=background); thread.start()"
_AWAITED = """
import asyncio

def background():
    import lazypkg

async def main():
    await asyncio.get_running_loop().run_in_executor(None, background)
    from lazypkg import Thing
    print("fine")

asyncio.run(main())
"""
_POOL_AT_EXIT = """
import atexit
from concurrent.futures import ThreadPoolExecutor

def background():
    import lazypkg

def at_exit():
    from lazypkg import Thing
    print("fine")

atexit.register(at_exit)
ThreadPoolExecutor(1).submit(background)
"""
_LOCKED = """
import threading
lock = threading.Lock()

def background():
    with lock:
        import lazypkg

if __name__ == "__main__":
    thread = threading.Thread(target=background)
    thread.start()
    with lock:
        from lazypkg import Thing
    thread.join()
    print("fine")
"""
_PROCESSES = """
import multiprocessing

def child():
    from lazypkg import Thing

if __name__ == "__main__":
    processes = [multiprocessing.get_context("spawn").Process(target=child) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("fine")
"""
_MODULE = "import importlib; importlib.import_module('lazypkg').Thing"

SAFE = tuple(
    Program(name=name, text=text)
    for name, text in {
        "plain modules": _threaded("import plain_a", "import plain_b"),
        "joined thread": _ordered(_START, "thread.join()"),
        "main first, then thread start": _ordered("import lazypkg", _START),
        "joined at exit": _AT_EXIT.replace("{daemon}", "False"),
        "pool joined at exit": _POOL_AT_EXIT,
        "event": _ordered(_START, "event.wait()"),
        "queue": _ordered(_START, "box.get()"),
        "future": _ordered("future = ThreadPoolExecutor(1).submit(background)", "future.result()"),
        "awaited thread": _AWAITED,
        "lock around both": _LOCKED,
        "import_module on both sides": _threaded(_MODULE, _MODULE),
        "one entry of a cycle": _threaded("import cycle_a", "import cycle_a"),
        "package on both sides": _threaded("import pkg", "import pkg"),
        "cycle after join": _ordered(
            _START, "thread.join()", first="import cycle_a", then="import cycle_b"
        ),
        "standard library": _threaded(
            "import json, decimal, http.client", "import json, asyncio, csv"
        ),
        "two processes": _PROCESSES,
        "no thread": "import lazypkg\nfrom lazypkg import Thing\nimport cycle_a, pkg.sub\nprint('fine')\n",
    }.items()
)

# A race that hands out a wrong module, in which nothing that is read is missing.
HARMLESS = _racy(
    _SELF, "twin", {"replaced, same names": _threaded("import twin", "from twin import value")}
)

CORPUS = (*RACY, *SAFE, *HARMLESS)


def named(name: str) -> Program:
    """The program of that name."""
    return next(program for program in CORPUS if program.name == name)


def command(program: Program, python: Path | str = sys.executable) -> list[str]:
    """The words that run it."""
    return [str(python), *program.words]

# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: what a test leaves in its process, and how to put it back.

A state is a dictionary of items. The id of an item is stable from run to run, so that a later run
can be asked to put back one of them alone.
"""

import collections
import functools
import locale
import os
import re
import signal
import socket
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

    Change = Tuple[str, str, Callable[[], object]]

# --- the containers and names that tests share, and how to put them back ---

OURS = ("_ci_doctor", "_pytest", "pytest", "pluggy", "xdist", "execnet", "__main__", "py.")
HIDDEN = {
    "__builtins__", "__warningregistry__", "__cached__", "__spec__", "__loader__", "last_type",
    "last_value", "last_traceback", "last_exc", "modules", "meta_path", "path_importer_cache",
    "path", "stdout", "stderr", "stdin", "tracebacklimit", "ps1", "ps2", "_", "PYTEST_CURRENT_TEST",
    "_event_loop_policy",
}  # fmt: skip
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_CONTAINERS = (list, dict, set, bytearray, collections.deque)
_DEEPEST = 5
_MOST_CELLS = 20000


def _same(one: "Any", other: "Any") -> bool:
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, _PLAIN) and one == other


def brief(value: "Any") -> str:
    if isinstance(value, (*_PLAIN, list, tuple, dict, set)):
        try:
            text = repr(value)
        except Exception:  # noqa: BLE001 - a value of the project may raise anything
            text = type(value).__name__
        return text if len(text) <= 60 else text[:57] + "..."
    return getattr(value, "__qualname__", None) or "a " + type(value).__name__


class Cell:
    """One container, namespace or cache that tests share, with a shallow copy of what it held."""

    def __init__(self, name: str, holder: "Any", saved: "Any") -> None:
        self.name, self.holder, self.saved = name, holder, saved

    def changes(self) -> "List[Change]":
        if isinstance(self.saved, dict):
            return self._of_keys()
        now = list(self.holder)
        if isinstance(self.holder, set):
            if self.holder == self.saved:
                return []
        elif len(now) == len(self.saved) and all(map(_same, now, self.saved)):
            return []
        what = "%s was %s, is %s" % (self.name, brief(self.saved), brief(type(self.saved)(now)))
        return [("state:" + self.name, what, self._put_back)]

    def _of_keys(self) -> "List[Change]":
        is_data = isinstance(self.holder, dict) and "." in self.name and self.name[0] != "@"
        now = self.holder if isinstance(self.holder, dict) else vars(self.holder)
        keys = []
        for key in list(now) + [key for key in self.saved if key not in now]:
            absent = key not in now or key not in self.saved
            if (absent or not _same(now[key], self.saved[key])) and key not in HIDDEN:
                keys.append(key)
        if is_data and keys:
            what = "%s was %s, is %s" % (self.name, brief(self.saved), brief(dict(now)))
            return [("state:" + self.name, what, self._put_back)]
        return [self._of_key(key, now) for key in keys]

    def _of_key(self, key: str, now: "Any") -> "Change":
        name = "%s.%s" % (self.name.lstrip("@"), key)
        before = brief(self.saved[key]) if key in self.saved else "absent"
        after = brief(now[key]) if key in now else "absent"

        def put_back() -> None:
            if isinstance(self.holder, dict):
                if key in self.saved:
                    self.holder[key] = self.saved[key]
                else:
                    self.holder.pop(key, None)
            elif key in self.saved:
                setattr(self.holder, key, self.saved[key])
            else:
                delattr(self.holder, key)

        return ("state:" + name, "%s was %s, is %s" % (name, before, after), put_back)

    def _put_back(self) -> None:
        if isinstance(self.holder, (list, bytearray)):
            self.holder[:] = self.saved
        elif isinstance(self.holder, collections.deque):
            self.holder.clear()
            self.holder.extend(self.saved)
        else:
            self.holder.clear()
            self.holder.update(self.saved)


class _Cache:
    """A functools cache: what it holds cannot be read, so it is emptied as a whole."""

    def __init__(self, name: str, function: "Any") -> None:
        self.name, self.function, self.before = name, function, function.cache_info().currsize

    def changes(self) -> "List[Change]":
        size = self.function.cache_info().currsize
        if size == self.before:
            return []
        what = "the cache of %s held %d results, holds %d" % (self.name, self.before, size)
        return [("state:" + self.name + "()", what, self.function.cache_clear)]


class Walk:
    """The cells below the modules of the project."""

    def __init__(self, is_own: "Callable[[Any], bool]") -> None:
        self.is_own = is_own
        self.cells: "List[Any]" = []
        self.done: "Set[int]" = set()

    def module(self, name: str, module: "Any") -> None:
        names = vars(module)
        # A copy of the names of each module: what replaced a function of the standard library too.
        self.cells.append(Cell("@" + name, names, dict(names)))
        if self.is_own(module):
            for key, value in list(names.items()):
                if key not in HIDDEN and not key.startswith("@"):
                    self.value("%s.%s" % (name, key), value, 0)

    def value(self, name: str, value: "Any", depth: int) -> None:
        if depth > _DEEPEST or len(self.cells) > _MOST_CELLS or isinstance(value, _PLAIN):
            return
        if id(value) in self.done:
            return
        self.done.add(id(value))
        if callable(getattr(value, "cache_info", None)) and hasattr(value, "cache_clear"):
            self.cells.append(_Cache(name, value))
        elif isinstance(value, _CONTAINERS):
            self.container(name, value, depth)
        elif isinstance(value, type):
            if self.is_own(sys.modules.get(value.__module__)):
                self.namespace(name, value, depth)
        elif self.is_own(sys.modules.get(type(value).__module__)) and hasattr(value, "__dict__"):
            self.namespace(name, value, depth)

    def container(self, name: str, value: "Any", depth: int) -> None:
        if isinstance(value, dict):
            self.cells.append(Cell(name, value, dict(value)))
            members = list(value.items())
        else:
            self.cells.append(Cell(name, value, type(value)(value)))
            members = list(enumerate(value))
        for key, member in members:
            self.value("%s[%r]" % (name, key), member, depth + 1)

    def namespace(self, name: str, value: "Any", depth: int) -> None:
        names = dict(vars(value))
        self.cells.append(Cell("@" + name, value, names))
        for key, member in names.items():
            if not key.startswith("__"):
                self.value("%s.%s" % (name, key), member, depth + 1)


def own_module(root: str) -> "Callable[[Any], bool]":
    def is_own(module: "Any") -> bool:
        path = getattr(module, "__file__", None) or ""
        name = getattr(module, "__name__", "")
        if not path or name.startswith(OURS):
            return False
        return path.startswith(root + os.sep) and "site-packages" not in path

    return is_own


# --- the state of the process ---

_SECRET = re.compile("TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
# Read once: a test may clear the environment.
_MARK = ("CI_DOCTOR_TRIAL_ID=" + os.environ.get("CI_DOCTOR_TRIAL_ID", "")).encode()


def _loop() -> "Tuple[Any, Any, Dict[str, Any]]":
    """The policy of asyncio, the main thread's event loop, and all that the policy knows of it."""
    events = sys.modules.get("asyncio.events")
    policy = getattr(events, "_event_loop_policy", None)
    local = getattr(policy, "_local", None)
    names = {} if local is None else dict(vars(local))
    return policy, getattr(local, "_loop", None), names


def _set_loop(before: "Tuple[Any, Any, Dict[str, Any]]") -> None:
    events: Any = sys.modules["asyncio.events"]
    events._event_loop_policy = before[0]
    if before[0] is not None:
        local = before[0]._local
        vars(local).clear()
        vars(local).update(before[2])


def _shown(name: str, value: "Optional[str]") -> str:
    """The value of a variable, as far as a report may hold it."""
    if value is None:
        return "unset"
    return "set" if _SECRET.search(name) else brief(value)


def _signals() -> "Dict[int, Any]":
    return {number: signal.getsignal(number) for number in sorted(signal.valid_signals())}


def _put_signals(handlers: "Dict[int, Any]") -> None:
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _umask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def _set_locale(value: str) -> None:
    locale.setlocale(locale.LC_ALL, value)


_SETTINGS = {
    "the umask": (_umask, os.umask),
    "the locale": (lambda: locale.setlocale(locale.LC_ALL), _set_locale),
    "sys.path": (lambda: list(sys.path), lambda value: sys.path.__setitem__(slice(None), value)),
    "the default timeout of sockets": (socket.getdefaulttimeout, socket.setdefaulttimeout),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the signal handlers": (_signals, _put_signals),
}  # type: Dict[str, Tuple[Callable[[], Any], Callable[[Any], object]]]


def processes() -> "Set[int]":
    """The processes that this trial started, also those that left its session."""
    pids = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                is_ours = _MARK in file.read().split(b"\0")
            with open("/proc/%s/stat" % name, "rb") as file:
                is_dead = file.read().rpartition(b")")[2].split()[0] == b"Z"
        except OSError:
            continue
        if is_ours and not is_dead:
            pids.add(int(name))
    return pids


class Snapshot:
    """The state of this process at a moment."""

    def __init__(self, root: str) -> None:
        self.environ = dict(os.environ)
        self.cwd = os.getcwd()
        self.settings = {name: pair[0]() for name, pair in _SETTINGS.items()}
        self.modules = dict(sys.modules)
        self.threads = set(threading.enumerate())
        self.processes = processes()
        self.loop = _loop()
        self.walk = Walk(own_module(root))
        for name, module in list(sys.modules.items()):
            if isinstance(module, type(sys)) and not name.startswith(OURS):
                self.walk.module(name, module)
        logging = sys.modules.get("logging")
        if logging is not None:
            self.walk.cells.append(Cell("@logging.root", logging.root, dict(vars(logging.root))))
            manager = logging.root.manager
            self.walk.cells.append(Cell("@logging.root.manager", manager, dict(vars(manager))))

    def changes(self) -> "List[Change]":
        """What differs now: the id of the item, a sentence, and how to put it back."""
        differences = self._environ() + self._settings() + self._modules() + self._running()
        for cell in self.walk.cells:
            try:
                differences += cell.changes()
            except Exception:  # noqa: BLE001 - a container of the project may raise anything
                continue
        return differences

    def _environ(self) -> "List[Change]":
        differences = []
        for name in sorted(set(self.environ) | set(os.environ)):
            before, after = self.environ.get(name), os.environ.get(name)
            if before == after or name in HIDDEN:
                continue
            was = _shown(name, before)
            now = _shown(name, after)
            differences.append(
                ("environ:" + name, "%s was %s, is %s" % (name, was, now), self._env(name))
            )
        return differences

    def _env(self, name: str) -> "Callable[[], object]":
        def put_back() -> None:
            if name in self.environ:
                os.environ[name] = self.environ[name]
            else:
                os.environ.pop(name, None)
            if name == "TZ":
                time.tzset()

        return put_back

    def _settings(self) -> "List[Change]":
        differences: "List[Change]" = []
        for name, (read, write) in _SETTINGS.items():
            before, after = self.settings[name], read()
            if before != after:
                what = "%s was %s, is %s" % (name, brief(before), brief(after))
                differences.append(("state:" + name, what, functools.partial(write, before)))
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = "a removed directory"
        if cwd != self.cwd:
            what = "the working directory was %s, is %s" % (self.cwd, cwd)
            differences.append(("directory:cwd", what, lambda: os.chdir(self.cwd)))
        return differences

    def _modules(self) -> "List[Change]":
        differences: "List[Change]" = []
        for name in sorted(set(self.modules) | set(sys.modules)):
            before, after = self.modules.get(name), sys.modules.get(name)
            is_plain_import = before is None and getattr(after, "__spec__", None) is not None
            if before is after or is_plain_import or name.startswith(OURS):
                continue
            what = "sys.modules[%r] was replaced" % name
            differences.append(("state:sys.modules." + name, what, self._module(name)))
        return differences

    def _module(self, name: str) -> "Callable[[], object]":
        def put_back() -> None:
            if name in self.modules:
                sys.modules[name] = self.modules[name]
            else:
                sys.modules.pop(name, None)

        return put_back

    def _running(self) -> "List[Change]":
        differences: "List[Change]" = []
        for thread in threading.enumerate():
            if thread not in self.threads:
                what = "the thread %s still runs" % thread.name
                # A thread cannot be ended from outside: another run does not start it at all.
                differences.append(("thread:thread", what, lambda: None))
        if _loop()[1] is not self.loop[1]:
            what = "the event loop of the main thread was replaced"
            differences.append(("thread:loop", what, lambda: _set_loop(self.loop)))
        for pid in sorted(processes() - self.processes):
            what = "the process %s still runs" % _command(pid)
            differences.append(("process:" + _command(pid), what, functools.partial(_end, pid)))
        return differences


def _command(pid: int) -> str:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return "?"
    return b" ".join(words).decode("utf-8", "replace").strip()[:80]


def _end(pid: int) -> None:
    """End a process that this trial started, and wait until it is gone."""
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return
    if descriptor is not None:
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(5000)
        os.close(descriptor)

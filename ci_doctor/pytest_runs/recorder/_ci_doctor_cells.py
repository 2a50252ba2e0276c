# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: the containers and names that tests share, and how to put them back."""

import collections
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Set, Tuple

    Change = Tuple[str, str, Callable[[], object]]

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

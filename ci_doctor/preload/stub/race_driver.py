# SPDX-License-Identifier: Apache-2.0
"""Acts on this interpreter: plays a preload rule's race, with a stub as the trigger.

`race_driver.py MODE RULE FIRST SECOND`, with RULE as
`TRIGGER=MODULE[:ATTRIBUTE,...][;MODULE...]`:

- `race`: the stub starts a thread that imports the module number FIRST, waits until that import has
  begun, and then needs the module number SECOND. The thread is held at the beginning of the import
  until the main thread waits for it, so the result does not depend on chance.
- `immunity`: the same with a package of our own that replaces itself; RULE names it, and no shim
  has a rule for it.
"""

import importlib.machinery
import os
import sys
import threading
import time
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LIMIT_S = 60.0
HOLD_LIMIT_S = 10.0

TRIGGER = """
import _ci_doctor_race
_ci_doctor_race.start()
{statement}
"""
SELF_REPLACING = """
import sys, types
class Lazy(types.ModuleType):
    value = 1
    __path__ = []
sys.modules[__name__] = Lazy(__name__)
"""


class StubLoader:
    """Makes a module from `source`."""

    def __init__(self, source: str) -> None:
        self.source = source

    def create_module(self, spec: "Any") -> None:
        """An ordinary module."""

    def exec_module(self, module: "Any") -> None:
        """Execute the source."""
        code = compile(self.source, f"<{module.__name__}, a stub of ci-doctor>", "exec")
        exec(code, vars(module))  # noqa: S102

    def get_source(self, name: str) -> str:  # noqa: ARG002
        """For tracebacks."""
        return self.source


class StubFinder:
    """Finds the stubs in `sources`, and the packages above them with the paths of the real ones."""

    def __init__(self, sources: "dict[str, str]", packages: "Sequence[str]") -> None:
        self.sources = sources
        self.packages = packages

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":  # noqa: ARG002
        """The spec of a stub."""
        if name not in self.sources and name not in self.packages:
            return None
        loader: Any = StubLoader(self.sources.get(name, ""))
        spec = importlib.machinery.ModuleSpec(name, loader, origin="a stub of ci-doctor")
        if name in self.packages:
            real = find_behind(self, name, path)
            # The real packages below it must still be importable.
            locations = getattr(real, "submodule_search_locations", None) or []
            spec.submodule_search_locations = list(locations)
        return spec


class HoldingFinder:
    """Holds the background import of `race.first` at its beginning, for the main thread."""

    def __init__(self, race: "Race") -> None:
        self.race = race

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """The real spec, whose loader then holds the module."""
        if name != self.race.first or threading.current_thread() is not self.race.thread:
            return None
        spec: Any = find_behind(self, name, path, target)
        loader: Any = getattr(spec, "loader", None)
        # A class (built-in and frozen modules) is shared; such an import is not held, and ends
        # before another thread can wait.
        can_hold = hasattr(loader, "exec_module") and hasattr(loader, "__dict__")
        if can_hold and not isinstance(loader, type):
            execute = loader.exec_module

            def exec_module(module: "Any") -> None:
                vars(loader).pop("exec_module", None)
                self.race.hold(module)
                execute(module)

            vars(loader)["exec_module"] = exec_module
        return spec


class Race:
    """The two threads of one run, and the result; the stub imports it as `_ci_doctor_race`."""

    def __init__(self, first: str, second: str, attributes: "Sequence[str]") -> None:
        self.first = first
        self.second = second
        self.attributes = attributes
        self.began = threading.Event()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.work, name="background import", daemon=True)
        self.main = threading.get_ident()
        self.executing: Any = None
        self.loaded_before = False
        self.executed = False
        self.thread_error = ""
        self.thread_traceback = ""

    def statement(self) -> str:
        """What the trigger does."""
        if self.attributes:
            return f"from {self.second} import {', '.join(self.attributes)}"
        return f"_ci_doctor_race.compare(__import__({self.second!r}, None, None, ('__name__',)))"

    def start(self) -> None:
        """Called by the trigger: returns when the background import is under way."""
        self.executed = True
        self.loaded_before = self.first in sys.modules
        self.thread.start()
        self.began.wait(LIMIT_S)

    def work(self) -> None:
        """The background thread."""
        try:
            __import__(self.first)
        except BaseException as error:  # noqa: BLE001 - whatever the module raises is the outcome
            self.thread_error = described(error)
            self.thread_traceback = traceback.format_exc()
        finally:
            self.began.set()

    def hold(self, module: "Any") -> None:
        """In the background, before the module's code runs: wait for the main thread to wait."""
        self.executing = module
        self.began.set()
        deadline = time.monotonic() + HOLD_LIMIT_S
        while not self.done.is_set() and time.monotonic() < deadline:
            if waits_for(self.main, self.thread.ident):
                return
            # CPython has no event for a thread that begins to wait for an import lock.
            time.sleep(0.0005)

    def compare(self, module: "Any") -> None:
        """Called by a trigger that needs no attributes."""
        if module is not sys.modules.get(self.second):
            raise ImportError(
                f"got a module {self.second!r} that is no longer the one in sys.modules"
            )

    def run(self, trigger: str) -> "dict[str, Any]":
        """Import the trigger; the result."""
        errors = []
        text = ""
        try:
            __import__(trigger)
        except BaseException as caught:  # noqa: BLE001 - whatever the trigger raises is the outcome
            errors.append(described(caught))
            text = traceback.format_exc()
        self.done.set()
        if self.executed:
            self.thread.join(LIMIT_S)
            if self.thread.is_alive() and not errors:
                errors.append(f"the background import of {self.first} did not end")
        if self.thread_error:
            errors.append(f"in the background thread: {self.thread_error}")
        return {
            "executed": self.executed,
            "error": "; ".join(errors),
            "traceback": text + self.thread_traceback,
            "loaded_before": self.loaded_before,
            "replaced": self.is_replaced(),
        }

    def is_replaced(self) -> bool:
        """Whether the first module put another object into its place."""
        current = sys.modules.get(self.first)
        if self.executing is None or current is None:
            return False
        return current is not self.executing


def waits_for(waiting: int, owner: "Any") -> bool:
    """Whether the thread `waiting` waits for an import lock of `owner`.

    True, after a moment, if this interpreter cannot show that.
    """
    blocking = getattr(sys.modules["_frozen_importlib"], "_blocking_on", None)
    if blocking is None:
        time.sleep(0.05)
        return True
    locks = blocking.get(waiting) or ()
    # One lock until 3.11, a list of locks since.
    if hasattr(locks, "owner"):
        locks = [locks]
    return any(lock.owner == owner for lock in list(locks))


def race(trigger: str, modules: "Any", first: int, second: int) -> "dict[str, Any]":
    """One run of the race."""
    played = Race(modules[first][0], *modules[second])
    sys.modules["_ci_doctor_race"] = played  # type: ignore[assignment]
    # The packages of a module to preload must be real; those of the trigger need not be installed.
    real = []
    for module, _ in modules:
        real += [*parents(module), module]
    packages = [name for name in parents(trigger) if name not in real]
    finder = StubFinder({trigger: TRIGGER.format(statement=played.statement())}, packages)
    put_behind_the_shim(finder, HoldingFinder(played))
    if trigger in sys.modules:
        return {"executed": False, "loaded_before": True}
    return played.run(trigger)


def find_behind(finder: "Any", name: str, path: "Any", target: "Any" = None) -> "Any":
    """The first spec that a finder behind `finder` has for `name`."""
    finders = list(sys.meta_path)
    for other in finders[finders.index(finder) + 1 :]:
        if hasattr(other, "find_spec"):
            spec = other.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def parents(name: str) -> "list[str]":
    """The packages above `name`, outermost first."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def parse(rule: str) -> "tuple[str, list[tuple[str, list[str]]]]":
    """The trigger, and the modules with their attributes."""
    trigger, _, modules = rule.partition("=")
    preloads = []
    for part in modules.split(";"):
        module, _, names = part.partition(":")
        preloads.append((module, [name for name in names.split(",") if name]))
    return trigger, preloads


def put_behind_the_shim(*finders: "Any") -> None:
    """Put finders where the real ones are: the shim calls those after it."""
    shim = sys.modules.get("_ci_doctor_preload")
    index = sys.meta_path.index(shim) + 1 if shim in sys.meta_path else 0
    sys.meta_path[index:index] = finders


def described(error: BaseException) -> str:
    """`Type: message` on one line."""
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    except Exception:  # noqa: BLE001 - a broken __str__
        return type(error).__name__


def finish(result: "dict[str, Any]") -> None:
    """Print the result as JSON in the last line of stdout, and end the process: a thread may hang.

    Without the json module, which may be a trigger or a stub.
    """
    pairs = []
    for name, value in result.items():
        text = quoted(value) if isinstance(value, str) else str(value).lower()
        pairs.append(f"{quoted(name)}: {text}")
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - contextlib may be a trigger
            stream.flush()
        except Exception:  # noqa: BLE001, S110 - a module has closed it
            pass
    os.write(1, f"\n{{{', '.join(pairs)}}}\n".encode("ascii"))
    os._exit(0)


def quoted(text: str) -> str:
    """`text` as a string in JSON."""
    characters = []
    # JSON escapes UTF-16 code units.
    for unit in memoryview(text.encode("utf-16", "replace")[2:]).cast("H"):
        is_plain = 35 <= unit < 92 or unit == 32
        characters.append(chr(unit) if is_plain else f"\\u{unit:04x}")
    return f'"{"".join(characters)}"'


def main(mode: str, rule: str, first: int, second: int) -> None:
    """Play the race, and print its result."""
    trigger, modules = parse(rule)
    if mode == "immunity":
        package = modules[first][0]
        sys.meta_path.append(StubFinder({package: SELF_REPLACING}, [package]))
    finish(race(trigger, modules, first, second))


if __name__ == "__main__":
    # Neither this program's folder nor the one where it was started is in the job's own path.
    del sys.path[0]
    sys.path[:] = [entry for entry in sys.path if entry]
    _mode, _rule, _first, _second = sys.argv[1:]
    del sys.argv[1:]
    main(_mode, _rule, int(_first), int(_second))

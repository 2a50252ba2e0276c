# SPDX-License-Identifier: Apache-2.0
"""Acts on this interpreter: plays a preload rule's race, with a stub as the trigger.

`race_driver.py MODE RULE [FIRST SECOND]`, with RULE as
`TRIGGER=MODULE[:ATTRIBUTE,...][;MODULE...]`:

- `race`: the stub starts a thread that imports the module number FIRST, waits until that import has
  begun, and then needs the module number SECOND. The thread is held at the beginning of the import
  until the main thread waits for it, so the result does not depend on chance.
- `spawn`: the same in a spawned child.
- `immunity`: the race with a package of our own that replaces itself; RULE names it, and no shim
  has a rule for it.
"""

import os
import sys
import threading
import time
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ci_doctor.preload.stub import _ci_doctor_stubs as stubs
else:
    # In the path for this import only: the folder is not in the job's path.
    # os.path, because pathlib is a heavy import.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    import _ci_doctor_stubs as stubs

    del sys.path[0]

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


class HoldingFinder:
    """Holds the background import of `race.first` at its beginning, for the main thread."""

    def __init__(self, race: "Race") -> None:
        self.race = race

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """The real spec, whose loader then holds the module."""
        if name != self.race.first or threading.current_thread() is not self.race.thread:
            return None
        spec: Any = stubs.find_behind(self, name, path, target)
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
            self.thread_error = stubs.described(error)
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
            errors.append(stubs.described(caught))
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


def race(rule: str, first: int, second: int) -> "dict[str, Any]":
    """One run of the race."""
    trigger, modules = stubs.parse(rule)
    played = Race(modules[first][0], *modules[second])
    sys.modules["_ci_doctor_race"] = played  # type: ignore[assignment]
    # The packages of a module to preload must be real; those of the trigger need not be installed.
    real = []
    for module, _ in modules:
        real += [*stubs.parents(module), module]
    packages = [name for name in stubs.parents(trigger) if name not in real]
    finder = stubs.StubFinder({trigger: TRIGGER.format(statement=played.statement())}, packages)
    stubs.put_behind_the_shim(finder, HoldingFinder(played))
    if trigger in sys.modules:
        return {
            "executed": False,
            "error": "",
            "traceback": "",
            "loaded_before": True,
            "replaced": False,
        }
    return played.run(trigger)


def immunity(rule: str) -> "dict[str, Any]":
    """The race with a package that is certain to replace itself."""
    package = stubs.parse(rule)[1][0][0]
    sys.meta_path.append(stubs.StubFinder({package: SELF_REPLACING}, [package]))
    return race(rule, 0, 0)


def in_child(rule: str, first: int, second: int) -> None:
    """The program of the spawned child."""
    stubs.finish(race(rule, first, second))


def spawn(rule: str, first: int, second: int) -> None:
    """The race in a child that is started as multiprocessing does it by default on most systems."""
    import multiprocessing

    child = multiprocessing.get_context("spawn").Process(
        target=in_child, args=(rule, first, second)
    )
    child.start()
    child.join()


def main(mode: str, rule: str, *rest: str) -> None:
    """Do `mode`."""
    if mode == "spawn":
        spawn(rule, int(rest[0]), int(rest[1]))
    elif mode == "immunity":
        stubs.finish(immunity(rule))
    else:
        stubs.finish(race(rule, int(rest[0]), int(rest[1])))


if __name__ == "__main__":
    # Neither this program's folder nor the one where it was started is in the job's own path.
    del sys.path[0]
    sys.path[:] = [entry for entry in sys.path if entry]
    arguments = sys.argv[1:]
    del sys.argv[1:]
    main(*arguments)

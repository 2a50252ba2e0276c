# SPDX-License-Identifier: Apache-2.0
"""Acts on this interpreter: every preload of a rule fails, the trigger must execute.

`failing_driver.py RULE EXCEPTION`: each module of RULE is a stub that raises EXCEPTION at first and
an ImportError afterwards. The trigger is a stub too: it imports the rule's first module, and the
result has the exception of that import. Modules that every start loads stay as they are.
"""

import os
import sys

# What every start loads: no preload of it can fail, and no trigger of it be waited for.
AT_START = frozenset(sys.modules)

import traceback  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ci_doctor.preload.stub import _ci_doctor_stubs as stubs
else:
    # In the path for this import only: the folder is not in the job's path.
    # os.path, because pathlib is a heavy import.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    import _ci_doctor_stubs as stubs

    del sys.path[0]

FAILING = """
import _ci_doctor_race
_ci_doctor_race.fail(__name__)
"""
RETELLING = """
import _ci_doctor_race
_ci_doctor_race.executed = True
import {module}
"""


class Failures:
    """Modules that raise an exception named `kind` at first and an ImportError afterwards."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.executed = False
        self.tried: dict[str, int] = {}

    def fail(self, name: str) -> None:
        """Called by a module that fails."""
        self.tried[name] = self.tried.get(name, 0) + 1
        if self.tried[name] == 1:
            raise {"RuntimeError": RuntimeError, "SystemExit": SystemExit}[self.kind]("first")
        raise ImportError("second")


def failing(rule: str, kind: str) -> "dict[str, Any]":
    """Whether the trigger executes although every preload fails, and what its own import raises."""
    trigger, modules = stubs.parse(rule)
    names = [module for module, _ in modules if module not in AT_START]
    if trigger in AT_START or not names:
        return {"executed": False, "loaded_before": True}
    failures = Failures(kind)
    sys.modules["_ci_doctor_race"] = failures  # type: ignore[assignment]
    sources = {trigger: RETELLING.format(module=names[0])}
    for name in names:
        sources[name] = FAILING
    loaded = take_out(sources)
    finder = stubs.StubFinder(sources, packages_of(sources))
    stubs.put_behind_the_shim(finder)
    raised: BaseException | None = None
    try:
        __import__(trigger)
    except BaseException as caught:  # noqa: BLE001 - whatever the trigger raises is the outcome
        raised = caught
    # The real ones again: describing the exception takes modules too.
    sys.meta_path = [each for each in sys.meta_path if each is not finder]
    take_out(sources)
    sys.modules.update(loaded)
    return {"executed": failures.executed, **in_words(raised)}


def packages_of(sources: "dict[str, str]") -> "list[str]":
    """The packages above the stubs."""
    packages = set()
    for name in sources:
        packages.update(stubs.parents(name))
    return sorted(packages.difference(sources))


def take_out(sources: "dict[str, str]") -> "dict[str, Any]":
    """Remove the stubs and their packages from sys.modules; returns what was there."""
    names = [*packages_of(sources), *sources]
    return {name: sys.modules.pop(name) for name in names if name in sys.modules}


def in_words(raised: "BaseException | None") -> "dict[str, str]":
    """`raised` on one line, and with its traceback."""
    if raised is None:
        return {"error": "", "traceback": ""}
    text = "".join(traceback.format_exception(type(raised), raised, raised.__traceback__))
    return {"error": stubs.described(raised), "traceback": text}


def main(rule: str, kind: str) -> None:
    """Play, and print the result."""
    stubs.finish(failing(rule, kind))


if __name__ == "__main__":
    # Neither this program's folder nor the one where it was started is in the job's own path.
    del sys.path[0]
    sys.path[:] = [entry for entry in sys.path if entry]
    arguments = sys.argv[1:]
    del sys.argv[1:]
    main(*arguments)

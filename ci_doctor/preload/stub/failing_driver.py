# SPDX-License-Identifier: Apache-2.0
"""Lets every preload of a rule fail in this interpreter; says on stdout whether the trigger executed all the same.

`failing_driver.py RULE EXCEPTION`: each module of RULE is a stub that raises EXCEPTION at first and an ImportError
afterwards. The trigger is a stub too; it imports the rule's first module, and what that raises is said. What is loaded at
every start stays as it is.
"""

import os
import sys

AT_START = frozenset(
    sys.modules
)  # what every start loads: no preload of it can fail, and no trigger of it be waited for

import traceback  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ci_doctor.preload.stub import _ci_doctor_stubs as stubs
else:  # in the path for this import only: that folder is not in the job's
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is a heavy import
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
        self.kind, self.executed = kind, False
        self.tried: dict[str, int] = {}

    def fail(self, name: str) -> None:
        """Called by a module that fails."""
        self.tried[name] = self.tried.get(name, 0) + 1
        if self.tried[name] == 1:
            raise {"RuntimeError": RuntimeError, "SystemExit": SystemExit}[self.kind]("first")
        raise ImportError("second")


def failing(rule: str, kind: str) -> "dict[str, Any]":
    """Whether the trigger executes although every preload fails, and what the real import of the first module raises."""
    trigger, modules = stubs.parse(rule)
    names = [module for module, _ in modules if module not in AT_START]
    failures = Failures(kind)
    if trigger in AT_START or not names:
        return {"executed": False, "loaded_before": True}
    sys.modules["_ci_doctor_race"] = failures  # type: ignore[assignment]
    sources = {trigger: RETELLING.format(module=names[0]), **dict.fromkeys(names, FAILING)}
    packages = {parent for name in [trigger, *names] for parent in stubs.parents(name)}.difference(
        sources
    )
    loaded = {name: sys.modules.pop(name) for name in [*packages, *sources] if name in sys.modules}
    finder = stubs.StubFinder(sources, sorted(packages))
    stubs.put_behind_the_shim(finder)
    raised: BaseException | None = None
    try:
        __import__(trigger)
    except BaseException as caught:  # noqa: BLE001 - whatever the trigger raises is the outcome
        raised = caught
    # The real ones again: to tell of it takes modules too.
    sys.meta_path = [each for each in sys.meta_path if each is not finder]
    for name in [*packages, *sources]:
        sys.modules.pop(name, None)
    sys.modules.update(loaded)
    return {"executed": failures.executed, **told(raised)}


def told(raised: "BaseException | None") -> "dict[str, str]":
    """What `raised` says, on one line and with its traceback."""
    if raised is None:
        return {"error": "", "traceback": ""}
    text = "".join(traceback.format_exception(type(raised), raised, raised.__traceback__))
    return {"error": stubs.described(raised), "traceback": text}


def main(rule: str, kind: str) -> None:
    """Do it."""
    stubs.say(failing(rule, kind))


if __name__ == "__main__":
    # Neither this program's folder nor the one where it was started is in the job's own path.
    del sys.path[0]
    sys.path[:] = [entry for entry in sys.path if entry]
    arguments = sys.argv[1:]
    del sys.argv[1:]
    main(*arguments)

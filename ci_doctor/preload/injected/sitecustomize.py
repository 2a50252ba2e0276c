# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters, by PYTHONPATH: executes the files of CI_DOCTOR_INJECT.

Then it runs the sitecustomize that it hides. It leaves no trace on sys.path; PYTHONPATH stays as it
is, so that child processes find this file too.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Not the type of our own loader: a launcher may have put another in its place (ddtrace-run does).
LOADER: "Any" = sys.modules["_frozen_importlib_external"].SourceFileLoader


def _execute(path: str) -> None:
    """Execute `path` once, as the module of its name, with cached bytecode. Never raises."""
    name = path.rpartition("/")[2].rpartition(".")[0]
    if name in sys.modules:  # an installed shim has it already
        return
    module = sys.modules[name] = type(sys)(name)
    module.__file__ = path
    try:
        loader = LOADER(name, path)
        exec(loader.get_code(name), module.__dict__)
    except Exception:  # noqa: BLE001 - what we add must not end a program
        del sys.modules[name]


def _run_the_next() -> None:
    """Run the sitecustomize that this one hides (Debian has one, ddtrace brings one)."""
    here = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    ours = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        # The import system looks for it when this file ends.
        sys.modules.setdefault(__name__, ours)


import os  # noqa: E402 - site has imported it

for _path in os.environ.get("CI_DOCTOR_INJECT", "").split(":"):
    if _path:
        _execute(_path)
_run_the_next()

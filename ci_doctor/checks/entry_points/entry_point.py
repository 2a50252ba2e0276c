# SPDX-License-Identifier: Apache-2.0
"""Pure. What is started to see whether an entry point of the job can be imported."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

# The import of the module, and of nothing below `if __name__ == "__main__"`. A console script does
# not import from its working directory, `python -m` does.
_IMPORT: Final = """
import importlib, sys
_, module, name, is_script = sys.argv
if is_script and sys.path[:1] == [""]:
    del sys.path[0]
value = importlib.import_module(module)
if name:
    getattr(value, name)
"""


class EntryCommand(Struct, frozen=True, kw_only=True):
    """A command to start in a fresh process, where it must end with exit status 0.

    `name` is how a report calls it. `python` is the interpreter that runs it, None if that is not
    known; `module` is what it imports first. `env` goes on top of the job's environment. Without
    `cwd` it runs in the job's directory.
    """

    name: str
    words: tuple[str, ...]
    python: Path | None = None
    module: str | None = None
    env: Mapping[str, str] = {}
    cwd: Path | None = None


def importing(
    name: str,
    python: Path,
    module: str,
    *,
    attribute: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> EntryCommand:
    """The import of `module` by `python`, as `python -m` would; it runs nothing else.

    With `attribute` it is the import of a console script.
    """
    is_script = "script" if attribute else ""
    return EntryCommand(
        name=name,
        words=(str(python), "-c", _IMPORT, module, attribute, is_script),
        python=python,
        module=module,
        env=env or {},
        cwd=cwd,
    )

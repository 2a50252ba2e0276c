# SPDX-License-Identifier: Apache-2.0
"""Reads console scripts, as installers write them: which interpreter imports what."""

import re
import shlex
from pathlib import Path
from typing import Final

from msgspec import Struct

_MOST_BYTES: Final = 16_384
_HERE: Final = r"[A-Za-z_][\w.]*"
# `from vllm.entrypoints.cli.main import main`: pip, uv, distlib and setuptools all write this line.
_IMPORTED: Final = re.compile(rf"^from ({_HERE}) import (\w+)\s*$", re.MULTILINE)
_GUARD: Final = re.compile(r"^if __name__ == ['\"]__main__['\"]:", re.MULTILINE)
# Installers write this in front of a long or blank path to the interpreter (PEP 394 has no word).
_BY_SHELL: Final = re.compile(r"^'''exec' (.+) \"\$0\" \"\$@\"$", re.MULTILINE)


class ConsoleScript(Struct, frozen=True, kw_only=True):
    """A script that imports `attribute` from `module`, and calls it."""

    python: Path
    module: str
    attribute: str


def read_console_script(path: Path) -> ConsoleScript | None:
    """The console script at `path`; None if it is something else, or cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return None
    text = content.decode("utf-8", "replace")
    python = _interpreter(text)
    imported = _IMPORTED.search(text)
    if python is None or imported is None or _GUARD.search(text) is None:
        return None
    return ConsoleScript(python=python, module=imported[1], attribute=imported[2])


def _interpreter(text: str) -> Path | None:
    """The interpreter in the first lines; None if another program is named there."""
    first = text.partition("\n")[0]
    if not first.startswith("#!"):
        return None
    words = first.removeprefix("#!").split()
    by_shell = _BY_SHELL.search(text)
    if by_shell is not None:
        words = shlex.split(by_shell[1])
    if not words or "python" not in Path(words[0]).name:
        return None
    return Path(words[0])

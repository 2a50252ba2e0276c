# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: at which statement of its script a shell is.

bash reads its script by descriptor 255, and sets it back behind the statement that it executes
before it starts a command. Other shells read ahead, and tell nothing.
"""

import contextlib
import os
import re
from pathlib import Path

from ci_doctor.model.words import shortened
from ci_doctor.syntax.shell_tree import syntax_tree
from ci_doctor.watch.judging import Process

_SCRIPT = "255"
_MOST_BYTES = 1 << 20
_SHOWN = 120


def place_of(process: Process) -> str | None:
    """`ci/serving.sh:12: until curl …`, or the text of `sh -c`; None if nobody can tell."""
    if not process.is_shell:
        return None
    if len(process.words) > 2 and re.fullmatch(r"-\w*c", process.words[1]):
        text = " ".join(process.words[2].split())
        return text if len(text) <= _SHOWN else None
    with contextlib.suppress(OSError, ValueError, IndexError, RecursionError):
        folder = f"/proc/{process.pid}"
        path = os.readlink(f"{folder}/fd/{_SCRIPT}")  # noqa: PTH115
        position = int(
            Path(f"{folder}/fdinfo/{_SCRIPT}").read_text().partition("pos:")[2].split()[0]
        )
        content = Path(path).read_bytes()
        if len(content) <= _MOST_BYTES:
            return _statement(path, content, position, process.directory)
    return None


def _statement(path: str, content: bytes, position: int, directory: str) -> str | None:
    """The last statement that begins before `position` (bytes)."""
    offset = len(content[:position].decode(errors="replace"))
    text = content.decode(errors="replace")
    before = [node for node in syntax_tree(text).program.children if node.start < offset]
    if not before:
        return None
    start = before[-1].start
    line = text.count("\n", 0, start) + 1
    words = text[start:].splitlines()[0].strip()
    name = path.removeprefix(f"{directory}/")
    return f"{name}:{line}: {shortened(words, _SHOWN)}"

# SPDX-License-Identifier: Apache-2.0
"""Reads what an entry point wrote, for the cause of its end."""

import re
import tempfile
from pathlib import Path
from typing import Final

from ci_doctor.diagnosis.log_end import LogEnd, read_log_end
from ci_doctor.system.processes.limited_runs import SeparateRun

_FRAME: Final = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# What faulthandler writes in front of the thread that got the signal.
_STACK: Final = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)
_STACK_LINES: Final = 12


def read_ending(run: SeparateRun) -> LogEnd:
    """The lines that say why it ended, and their cause if one can be named."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        log.write(run.stdout.encode())
        log.write(run.stderr.encode())
        log.flush()
        return read_log_end(Path(log.name))


def hanging_stack(run: SeparateRun) -> tuple[str, ...]:
    """The stack of the thread in which a hanging Python was, innermost first; () without one."""
    begin = _STACK.search(run.stderr)
    if begin is None:
        return ()
    lines = run.stderr[begin.start() :].splitlines()[1:]
    stack = []
    for line in lines:
        if not line.startswith("  "):
            break
        stack.append(line.strip())
    return tuple(stack[:_STACK_LINES])


def frames(run: SeparateRun) -> tuple[Path, ...]:
    """The files of all frames of its tracebacks, the innermost of the last one at the end."""
    return tuple(Path(frame["file"]) for frame in _FRAME.finditer(run.stderr))


def lacks_package(run: SeparateRun, package: str) -> bool:
    """Whether it says last that the top-level `package` is not there, by an import or by `-m`."""
    # `python -m` (runpy of CPython 3.8 to 3.14) puts the exception in parentheses.
    missing = re.compile(rf"ModuleNotFoundError: No module named '{re.escape(package)}'\)?")
    return missing.search(run.last_words) is not None

# SPDX-License-Identifier: Apache-2.0
"""Pure. A Python program that decides in a job, and what its rules report."""

import re
import sys
from pathlib import PurePosixPath

from msgspec import Struct

from ci_doctor.lint.python.all_rules import CHECKS
from ci_doctor.lint.python.program import parse
from ci_doctor.lint.unreadable import Unreadable
from ci_doctor.lint.violation import Violation

# Folders of CI: a program in them runs in a job, and what it exits with is the job's result.
_FOLDERS = re.compile(
    r"\.?(?:buildkite|github|gitlab|circleci|jenkins|azure-pipelines|ci|qa)|.+[_-]ci"
    r"|ci[_-](?:checks?|gates?|helpers|jobs?|scripts?|tests?|tools?|utils)"
)


class PythonReading(Struct, frozen=True, kw_only=True):
    """What the rules report, and what could not be read."""

    violations: tuple[Violation, ...]
    unreadable: tuple[Unreadable, ...]


def is_gate(file: str) -> bool:
    """Whether a Python file lies in a folder of CI. `file` is relative to the repository."""
    path = PurePosixPath(file)
    if path.suffix != ".py":
        return False
    return any(_FOLDERS.fullmatch(part.lower()) for part in path.parts[:-1])


def check_python(file: str, text: str) -> PythonReading:
    """The violations of one program, by their lines. It raises for no text."""
    try:
        program = parse(file, text)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        reason = f"Python {version} refuses its syntax: {error.msg}"
        unreadable = Unreadable(file=file, line=error.lineno or 1, reason=reason)
        return PythonReading(violations=(), unreadable=(unreadable,))
    try:
        violations = [violation for check in CHECKS for violation in check(program)]
    except RecursionError:
        reason = "an expression of it is nested too deeply to be read"
        unreadable = Unreadable(file=file, line=1, reason=reason)
        return PythonReading(violations=(), unreadable=(unreadable,))
    violations.sort(key=lambda each: each.place.line)
    return PythonReading(violations=tuple(violations), unreadable=())

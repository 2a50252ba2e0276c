# SPDX-License-Identifier: Apache-2.0
"""Pure. A Python program that decides in a job, and what its rules report."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Unreadable, Violation
from ci_doctor.lint.python import decision_rules, result_rules, uncounted_request_error
from ci_doctor.lint.python.program import PythonProgram, parse
from ci_doctor.lint.source_files import CiRole, FileReading

# Folders of CI: a program in them runs in a job, and what it exits with is the job's result.
_FOLDERS = re.compile(
    r"\.?(?:buildkite|github|gitlab|circleci|jenkins|azure-pipelines|ci|qa)|.+[_-]ci"
    r"|ci[_-](?:checks?|gates?|helpers|jobs?|scripts?|tests?|tools?|utils)"
)


_CHECKED: Final[tuple[tuple[LintRule, Callable[[PythonProgram], Iterator[Violation]]], ...]] = (
    *decision_rules.RULES,
    *uncounted_request_error.RULES,
    *result_rules.RULES,
)
RULES: Final = tuple(rule for rule, _ in _CHECKED)


def is_gate(file: str) -> bool:
    """Whether a Python file lies in a folder of CI. `file` is relative to the repository."""
    path = PurePosixPath(file)
    if path.suffix != ".py":
        return False
    return any(_FOLDERS.fullmatch(part.lower()) for part in path.parts[:-1])


def check_python(file: str, text: str) -> FileReading:
    """The violations of one program, by their lines. It raises for no text."""
    try:
        program = parse(file, text)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        reason = f"Python {version} refuses its syntax: {error.msg}"
        unreadable = Unreadable(file=file, line=error.lineno or 1, reason=reason)
        return FileReading(role=CiRole.GATE, unreadable=(unreadable,))
    try:
        violations = [violation for _, check in _CHECKED for violation in check(program)]
    except RecursionError:
        reason = "an expression of it is nested too deeply to be read"
        unreadable = Unreadable(file=file, line=1, reason=reason)
        return FileReading(role=CiRole.GATE, unreadable=(unreadable,))
    violations.sort(key=lambda each: each.place.line)
    return FileReading(role=CiRole.GATE, violations=tuple(violations))

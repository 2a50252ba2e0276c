# SPDX-License-Identifier: Apache-2.0
"""Pure. A Python program that decides in a job: rules about the status with which it ends, and what all its rules report."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Final

from ci_doctor.lint import answer_rules
from ci_doctor.lint.lint_rule import Example, LintRule, Unreadable, Violation
from ci_doctor.lint.python_program import (
    PythonProgram,
    inside,
    is_broad,
    parse,
)
from ci_doctor.lint.source_files import CiRole, FileReading
from ci_doctor.model.finding import Rule, Severity

# Rules about the status with which a Python program ends.


# A handler of all errors that ends the program as if it had succeeded.

_ZERO_AFTER_ERROR = """\
import sys

try:
    main()
except Exception as error:
    print(error)
    sys.exit(0)
"""

_OPEN = """\
def compare_outputs(first, second):
    try:
        return read(first) == read(second)
    except Exception as error:
        print(error)
        return True
"""

EXIT_ZERO = LintRule(
    rule=Rule(
        id="gate/success-on-error",
        severity=Severity.ERROR,
        meaning=(
            "A program of the job catches every error and exits with status 0, or its comparison "
            "answers True for an error. A step that crashes is green."
        ),
        remedy="Exit with a status other than 0 in the handler, or answer False.",
    ),
    bad=(
        (Example(file="ci/gate.py", text=_ZERO_AFTER_ERROR),),
        (Example(file="ci/gate.py", text=_OPEN),),
    ),
    good=(
        (Example(file="ci/gate.py", text=_OPEN.replace("True", "False")),),
        (Example(file="ci/gate.py", text=_OPEN.replace("compare_outputs", "is_stopped")),),
        (Example(file="ci/gate.py", text=_ZERO_AFTER_ERROR.replace("exit(0)", "exit(1)")),),
        (
            Example(
                file="ci/gate.py",
                text=_ZERO_AFTER_ERROR.replace("Exception as error", "KeyboardInterrupt as error"),
            ),
        ),
    ),
)


def exit_zero(program: PythonProgram) -> Iterator[Violation]:
    """Handlers of everything that exit with 0, or that answer for a comparison."""
    for node in program.nodes:
        if not isinstance(node, ast.ExceptHandler) or not is_broad(program, node):
            continue
        leave = _only_exit(program, node)
        if leave is not None and _is_success(leave):
            yield program.violation(
                EXIT_ZERO,
                leave,
                "every error ends the program with status 0 here",
                remedy="Exit with 1, or let the error end the program.",
                related=(node,),
            )
        last = node.body[-1]
        function = program.scope(node)
        if (
            isinstance(last, ast.Return)
            and (isinstance(last.value, ast.Constant) and last.value.value is True)
            and _compares(function)
        ):
            yield program.violation(
                EXIT_ZERO,
                last,
                "every error is answered with True here, as if the comparison had succeeded",
                remedy="Answer False, or let the error end the program.",
                related=(node,),
            )


def _compares(function: ast.AST) -> bool:
    """Whether the name of a function says that it decides."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    words = re.split("_+", function.name.lower())
    return words[0] in {"compare", "verify", "validate", "check", "assert"}


def _only_exit(program: PythonProgram, handler: ast.ExceptHandler) -> ast.Call | None:
    """The one exit of a handler, if it is a statement of its own and under no condition."""
    exits = [
        each
        for each in inside(handler.body)
        if isinstance(each, ast.Call) and program.dotted(each.func) in {"sys.exit", "exit", "quit"}
    ]
    statements = [each.value for each in handler.body if isinstance(each, ast.Expr)]
    return exits[0] if len(exits) == 1 and exits[0] in statements else None


def _is_success(call: ast.Call) -> bool:
    if not call.args:
        return True
    status = call.args[0]
    return isinstance(status, ast.Constant) and status.value in {0, None}


# A Python program that decides in a job, and what its rules report.

# Folders of CI: a program in them runs in a job, and what it exits with is the job's result.
_FOLDERS = re.compile(
    r"\.?(?:buildkite|github|gitlab|circleci|jenkins|azure-pipelines|ci|qa)|.+[_-]ci"
    r"|ci[_-](?:checks?|gates?|helpers|jobs?|scripts?|tests?|tools?|utils)"
)


_CHECKED: Final[tuple[tuple[LintRule, Callable[[PythonProgram], Iterator[Violation]]], ...]] = (
    (EXIT_ZERO, exit_zero),
    *answer_rules.RULES,
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

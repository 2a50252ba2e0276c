# SPDX-License-Identifier: Apache-2.0
"""Pure. A handler of all errors that ends the program as if it had succeeded."""

import ast
from collections.abc import Iterator

from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.handlers import is_broad
from ci_doctor.lint.python.program import PythonProgram, inside
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_BAD = """\
import sys

try:
    main()
except Exception as error:
    print(error)
    sys.exit(0)
"""

RULE = LintRule(
    rule=Rule(
        id="gate/success-on-error",
        severity=Severity.ERROR,
        meaning=(
            "A program of the job catches every error and exits with status 0. A step that "
            "crashes is green."
        ),
        remedy="Exit with a status other than 0 in the handler.",
    ),
    bad=((Example(file="ci/gate.py", text=_BAD),),),
    good=(
        (Example(file="ci/gate.py", text=_BAD.replace("exit(0)", "exit(1)")),),
        (
            Example(
                file="ci/gate.py",
                text=_BAD.replace("Exception as error", "KeyboardInterrupt as error"),
            ),
        ),
    ),
)


def check(program: PythonProgram) -> Iterator[Violation]:
    """Handlers of everything that exit with 0."""
    for node in program.nodes:
        if not isinstance(node, ast.ExceptHandler) or not is_broad(program, node):
            continue
        exits = [each for each in inside(node.body) if _is_exit(program, each)]
        if len(exits) != 1:
            continue
        leave = exits[0]
        if isinstance(leave, ast.Call) and _is_success(leave) and _always_runs(node, leave):
            yield program.violation(
                RULE,
                leave,
                "every error ends the program with status 0 here",
                remedy="Exit with 1, or let the error end the program",
                related=(node,),
            )


def _is_exit(program: PythonProgram, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and program.dotted(node.func) in {"sys.exit", "exit", "quit"}


def _is_success(call: ast.Call) -> bool:
    if not call.args:
        return True
    status = call.args[0]
    return isinstance(status, ast.Constant) and status.value in {0, None}


def _always_runs(handler: ast.ExceptHandler, call: ast.Call) -> bool:
    """Whether the exit is a statement of the handler itself, and under no condition."""
    return any(isinstance(each, ast.Expr) and each.value is call for each in handler.body)

# SPDX-License-Identifier: Apache-2.0
"""Pure. A handler of all errors that ends the program as if it had succeeded."""

import ast
import re
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

_OPEN = """\
def compare_outputs(first, second):
    try:
        return read(first) == read(second)
    except Exception as error:
        print(error)
        return True
"""

RULE = LintRule(
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
        (Example(file="ci/gate.py", text=_BAD),),
        (Example(file="ci/gate.py", text=_OPEN),),
    ),
    good=(
        (Example(file="ci/gate.py", text=_OPEN.replace("True", "False")),),
        (Example(file="ci/gate.py", text=_OPEN.replace("compare_outputs", "is_stopped")),),
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
    """Handlers of everything that exit with 0, or that answer for a comparison."""
    for node in program.nodes:
        if not isinstance(node, ast.ExceptHandler) or not is_broad(program, node):
            continue
        leave = _only_exit(program, node)
        if leave is not None and _is_success(leave):
            yield program.violation(
                RULE,
                leave,
                "every error ends the program with status 0 here",
                remedy="Exit with 1, or let the error end the program",
                related=(node,),
            )
        last = node.body[-1]
        function = program.scope(node)
        if isinstance(last, ast.Return) and _is_true(last.value) and _compares(function):
            yield program.violation(
                RULE,
                last,
                "every error is answered with True here, as if the comparison had succeeded",
                remedy="Answer False, or let the error end the program",
                related=(node,),
            )


def _compares(function: ast.AST) -> bool:
    """Whether the name of a function says that it decides."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    words = re.split("_+", function.name.lower())
    return words[0] in {"compare", "verify", "validate", "check", "assert"}


def _is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _only_exit(program: PythonProgram, handler: ast.ExceptHandler) -> ast.Call | None:
    """The one exit of a handler, if it is a statement of its own and under no condition."""
    exits = [each for each in inside(handler.body) if _is_exit(program, each)]
    statements = [each.value for each in handler.body if isinstance(each, ast.Expr)]
    if len(exits) != 1 or exits[0] not in statements:
        return None
    leave = exits[0]
    return leave if isinstance(leave, ast.Call) else None


def _is_exit(program: PythonProgram, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and program.dotted(node.func) in {"sys.exit", "exit", "quit"}


def _is_success(call: ast.Call) -> bool:
    if not call.args:
        return True
    status = call.args[0]
    return isinstance(status, ast.Constant) and status.value in {0, None}

# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about the status with which a Python program ends."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import Example, LintRule, Violation
from ci_doctor.lint.python.program import (
    PythonProgram,
    caught,
    inside,
    is_broad,
    is_silent,
    is_try_again,
)
from ci_doctor.model.finding import Rule, Severity

SWALLOWED_DECISION = LintRule(
    rule=Rule(
        id="gate/swallowed-decision",
        severity=Severity.ERROR,
        meaning=(
            "A program of the job decides by an assertion or an exit, and an `except` around it "
            "catches the failure and does nothing. The job passes whatever is decided."
        ),
        remedy="Catch only what is expected, or end the program in the handler: `raise`.",
    ),
    bad=(
        (
            Example(
                file=".buildkite/compare.py",
                text=(
                    "try:\n"
                    "    assert answers == expected\n"
                    "except Exception as error:\n"
                    "    print(error)\n"
                ),
            ),
        ),
        (
            Example(
                file="ci/gate.py",
                text=(
                    "import sys\n"
                    "def main(slower):\n"
                    "    try:\n"
                    "        if slower:\n"
                    "            sys.exit(1)\n"
                    "    except:\n"
                    "        pass\n"
                ),
            ),
        ),
    ),
    good=(
        (
            Example(
                file=".buildkite/compare.py",
                text=(
                    "try:\n"
                    "    assert answers == expected\n"
                    "except Exception as error:\n"
                    "    print(error)\n"
                    "    raise\n"
                ),
            ),
        ),
        (
            Example(
                file=".buildkite/wait.py",
                text=(
                    "for _ in range(60):\n"
                    "    try:\n"
                    "        requests.get(url, timeout=5).raise_for_status()\n"
                    "        break\n"
                    "    except Exception:\n"
                    "        time.sleep(1)\n"
                    "else:\n"
                    "    raise SystemExit(1)\n"
                ),
            ),
        ),
    ),
)


def swallowed_decision(program: PythonProgram) -> Iterator[Violation]:
    """Handlers that swallow what the `try` before them decides."""
    for node in program.nodes:
        if not isinstance(node, ast.Try) or node.orelse or is_try_again(program, node):
            continue
        for handler in node.handlers:
            if not is_silent(program, handler):
                continue
            decision = _decision(program, node.body, handler)
            if decision is not None:
                yield program.violation(
                    SWALLOWED_DECISION,
                    handler,
                    f"the failure of line {decision.lineno} is caught here, and nothing follows "
                    "from it",
                    remedy="Let the error end the program: add `raise` to this handler",
                    related=(decision,),
                )


def _decision(
    program: PythonProgram, body: list[ast.stmt], handler: ast.ExceptHandler
) -> ast.stmt | ast.expr | None:
    """What fails on purpose in `body` and is caught by `handler`."""
    names = caught(program, handler)
    everything = not names or "BaseException" in names
    catches_it = is_broad(program, handler) or "AssertionError" in names
    for node in inside(body):
        if isinstance(node, ast.Assert) and catches_it and not _tells_a_type(node.test):
            return node
        if isinstance(node, ast.Call) and _is_failing_exit(program, node) and everything:
            return node
    return None


def _tells_a_type(test: ast.expr) -> bool:
    """`assert x is not None` and `assert isinstance(…)` are for a type checker."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        return True
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return "isinstance" in names


def _is_failing_exit(program: PythonProgram, call: ast.Call) -> bool:
    """An exit that says failure: not `sys.exit()` and not `sys.exit(0)`."""
    if program.dotted(call.func) not in {"sys.exit", "exit", "quit"}:
        return False
    if not call.args:
        return False
    status = call.args[0]
    return not (isinstance(status, ast.Constant) and status.value in {0, None})


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
        if isinstance(last, ast.Return) and _is_true(last.value) and _compares(function):
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


RULES: Final = (
    (SWALLOWED_DECISION, swallowed_decision),
    (EXIT_ZERO, exit_zero),
)

# SPDX-License-Identifier: Apache-2.0
"""Pure. An `except` that does nothing around a statement that decides."""

import ast
from collections.abc import Iterator

from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.handlers import caught, is_broad, is_silent, is_try_again
from ci_doctor.lint.python.program import PythonProgram, inside
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE = LintRule(
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


def check(program: PythonProgram) -> Iterator[Violation]:
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
                    RULE,
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
        if isinstance(node, ast.Call) and _is_exit(program, node) and everything:
            return node
    return None


def _tells_a_type(test: ast.expr) -> bool:
    """`assert x is not None` and `assert isinstance(…)` are for a type checker."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        return True
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return "isinstance" in names


def _is_exit(program: PythonProgram, call: ast.Call) -> bool:
    """An exit that says failure: not `sys.exit()` and not `sys.exit(0)`."""
    if program.dotted(call.func) not in {"sys.exit", "exit", "quit"}:
        return False
    if not call.args:
        return False
    status = call.args[0]
    return not (isinstance(status, ast.Constant) and status.value in {0, None})

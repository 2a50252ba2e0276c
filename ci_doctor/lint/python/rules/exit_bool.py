# SPDX-License-Identifier: Apache-2.0
"""Pure. `sys.exit(main())` where `main` answers True for success: the status is 1."""

import ast
from collections.abc import Iterator

from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.program import Function, PythonProgram, inside
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_BAD = """\
import sys

def main():
    if different():
        return False
    return True

sys.exit(main())
"""

RULE = LintRule(
    rule=Rule(
        id="gate/exit-with-bool",
        severity=Severity.ERROR,
        meaning=(
            "A program exits with the answer of a function that is True or False. For Python True "
            "is the status 1 and False is 0: success fails the job, and failure passes it."
        ),
        remedy="Exit with `0 if main() else 1`.",
    ),
    bad=((Example(file="ci/gate.py", text=_BAD),),),
    good=(
        (
            Example(
                file="ci/gate.py", text=_BAD.replace("exit(main())", "exit(0 if main() else 1)")
            ),
        ),
        (
            Example(
                file="ci/gate.py",
                text=_BAD.replace("False", "1").replace("True", "0"),
            ),
        ),
    ),
)


def check(program: PythonProgram) -> Iterator[Violation]:
    """Exits with the answer of a function of this program whose answers are all bool."""
    functions = {
        node.name: node
        for node in program.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for call in program.calls:
        if program.dotted(call.func) not in {"sys.exit", "exit"} or len(call.args) != 1:
            continue
        asked = call.args[0]
        if not isinstance(asked, ast.Call) or not isinstance(asked.func, ast.Name):
            continue
        function = functions.get(asked.func.id)
        if function is not None and _answers_bool(function):
            yield program.violation(
                RULE,
                call,
                f"`{function.name}` returns True or False, and True is the exit status 1",
                remedy=f"sys.exit(0 if {ast.unparse(asked)} else 1)",
                related=(function,),
            )


def _answers_bool(function: Function) -> bool:
    """Whether it returns both True and False as constants, and nothing else."""
    answers = [node.value for node in inside(function.body) if isinstance(node, ast.Return)]
    values = {each.value if isinstance(each, ast.Constant) else each for each in answers}
    return all(isinstance(each, bool) for each in values) and len(values) == 2

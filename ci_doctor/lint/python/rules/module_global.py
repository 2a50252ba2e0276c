# SPDX-License-Identifier: Apache-2.0
"""Pure. `global` where every name is global already."""

import ast
from collections.abc import Iterator

from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_BAD = """\
if __name__ == "__main__":
    global settings
    settings = read()
"""

RULE = LintRule(
    rule=Rule(
        id="gate/global-without-effect",
        severity=Severity.NOTE,
        meaning=(
            "`global` stands outside of functions, where it does nothing. It suggests that a "
            "variable is shared in a way in which it is not: a process that is spawned does not "
            "have it."
        ),
        remedy="Remove the line. Hand the value to those who need it.",
    ),
    bad=((Example(file="ci/run.py", text=_BAD),),),
    good=(
        (Example(file="ci/run.py", text=_BAD.replace("    global settings\n", "")),),
        (
            Example(
                file="ci/run.py",
                text="settings = None\ndef use():\n    global settings\n    settings = 1\n",
            ),
        ),
    ),
)


def check(program: PythonProgram) -> Iterator[Violation]:
    """`global` statements of the module itself."""
    for node in program.nodes:
        if isinstance(node, ast.Global) and program.scope(node) is program.tree:
            names = ", ".join(node.names)
            yield program.violation(RULE, node, f"`global {names}` has no effect here")

# SPDX-License-Identifier: Apache-2.0
"""Pure. Paths of installed packages with a version of Python in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/hard-coded-site-packages",
        severity=Severity.WARNING,
        meaning="The path holds one version of Python. An image with another one does not have it, and the step fails, or changes a file that nothing reads.",
        remedy='Ask the interpreter: `python3 -c "import pkg, os; print(os.path.dirname(pkg.__file__))"`.',
    ),
    bad=(
        script("sed -i s/a/b/ /usr/local/lib/python3.12/dist-packages/vllm/x.py\n"),
        script("export PYTHONPATH=/opt/venv/lib/python3.11/site-packages\n"),
        script('cd "/usr/lib/python3.10/site-packages/vllm" || exit 1\n'),
        script("SITE=/opt/conda/lib/python3.9/site-packages\n"),
        script("cp x.py ${VENV}/lib/python3.12/site-packages/\n"),
    ),
    good=(
        script("# see /usr/lib/python3.10/site-packages\ntrue\n"),
        script('site=$(python3 -c "import site; print(site.getsitepackages()[0])")\n'),
        script('ls "$VENV"/lib/python3.*/site-packages\n'),
        script('cp x "$VENV/lib/python${PYTHON_VERSION}/site-packages/"\n'),
        script('echo "not in /usr/lib/python3.10/site-packages"\n'),
        script('sp="$work/lib/python3.12/site-packages"\nmkdir -p "$sp"\n'),
    ),
)

_PATH: Final = re.compile(r"(?<![^\s\"'=:])[^\s\"'=:]*python3\.\d+/(?:site|dist)-packages")


def check(program: ShellProgram) -> Iterator[Violation]:
    """Commands and assignments that spell such a path out, once for each line."""
    if "-packages" not in program.text:
        return
    lines = set()
    for path in _PATH.finditer(program.text):
        node = program.innermost(path.start())
        if node is None or node.kind is NodeKind.HERE_TEXT or node.word in ("echo", "printf"):
            continue
        if node.kind is NodeKind.TEST or (
            node.parent is not None and node.parent.kind is NodeKind.TEST
        ):
            continue
        if _makes_it(program, node):
            continue
        if _is_comment(program.text, path.start()) or node.kind is NodeKind.PROGRAM:
            continue
        line = program.line(path.start())
        if line not in lines:
            lines.add(line)
            yield violation(
                program, RULE, node, f"`{path[0]}` exists for one version of Python only"
            )


def _makes_it(program: ShellProgram, node: ShellNode) -> bool:
    """Whether the script itself makes the directory: no interpreter has it, or each one may."""
    if node.word == "mkdir":
        return True
    name = re.match(r"(?:(?:local|export|readonly|declare)\s+)?(\w+)=", program.of_node(node))
    made = rf"\bmkdir\b[^\n;&|]*\$\{{?{name[1]}\b" if name else None
    return made is not None and re.search(made, program.text) is not None


def _is_comment(text: str, offset: int) -> bool:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return bool(re.search(r"(?:^|\s)#", line))

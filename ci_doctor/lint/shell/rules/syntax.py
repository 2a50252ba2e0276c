# SPDX-License-Identifier: Apache-2.0
"""Pure. Programs that bash cannot read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ci_doctor.lint.excerpt import excerpt_of
from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_violation import script
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from ci_doctor.lint.shell.shell_source import ShellSource

RULE: Final = LintRule(
    rule=Rule(
        id="shell/syntax",
        severity=Severity.ERROR,
        meaning="Bash cannot read the script. It fails when it comes to this line, or before it runs at all.",
        remedy="Repair the line: `bash -n FILE` says the same.",
    ),
    bad=(
        script("if true; then\n  echo a\n"),
        script("IMAGE=<IMAGE_NAME>:<TAG>\n"),
        script("for i in 1 2; do\n  echo $i\n"),
        script("f() {\n  echo a\n"),
    ),
    good=(
        script("if true; then\n  echo a\nfi\n"),
        script('IMAGE="${1:?image}"\n'),
        script("shopt -s extglob\nrm -- !(keep)\n"),
    ),
)


def syntax_violation(source: ShellSource, line: int, complaint: str) -> Violation:
    """Bash's own words about `line` of the source's text."""
    texts = source.text.split("\n")
    own = min(max(line, 1), len(texts))
    lines = source.lines
    number = own
    if lines is not None:
        number = lines[min(own, len(lines)) - 1] if lines else 1
    return Violation(
        rule=RULE,
        place=Place(file=source.file, line=number, end_line=number),
        summary=f"bash cannot read this: {complaint}",
        excerpt=excerpt_of(texts[own - 1]),
    )

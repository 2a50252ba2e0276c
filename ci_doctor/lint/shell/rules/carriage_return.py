# SPDX-License-Identifier: Apache-2.0
"""Pure. Scripts with the line ends of another system."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.excerpt import excerpt_of
from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_violation import script
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_program import ShellProgram

RULE: Final = LintRule(
    rule=Rule(
        id="shell/carriage-return",
        severity=Severity.ERROR,
        meaning="Lines end with CR LF. Bash takes the carriage return for a part of the last word of the line.",
        remedy="Convert the file (`sed -i 's/\\r$//' FILE`), and write `*.sh text eol=lf` into .gitattributes.",
    ),
    bad=(script("set -e\r\necho a\r\n"), script("cd app || exit 1\r\n")),
    good=(script("set -e\necho a\n"), script("printf 'a\\r\\n'\n")),
)
_CODE: Final = re.compile(r"(?m)^[^#\r\n][^\r\n]*\r$")


def check(program: ShellProgram) -> Iterator[Violation]:
    """The first line of code that ends so. There is no mend: what fails today for the wrong word may succeed after it."""
    text = program.source.text
    match = _CODE.search(text) if "\r" in text else None
    if match is None or "<<" in text[: match.start()]:
        return
    line = program.line(match.start())
    yield Violation(
        rule=RULE,
        place=Place(file=program.source.file, line=line, end_line=line),
        summary="This line ends with CR LF, and bash reads the carriage return as a part of it",
        excerpt=excerpt_of(match[0]),
    )

# SPDX-License-Identifier: Apache-2.0
"""Pure. All rules of shell scripts, with the checks of those that read the tree."""

from collections.abc import Callable, Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation
from ci_doctor.lint.shell import (
    lost_failures,
    lost_status,
    process_rules,
    waiting_rules,
)
from ci_doctor.lint.shell.shell_program import ShellProgram

CHECKED: Final[tuple[tuple[LintRule, Callable[[ShellProgram], Iterator[Violation]]], ...]] = (
    *lost_failures.RULES,
    *lost_status.RULES,
    *waiting_rules.RULES,
    *process_rules.RULES,
)
RULES: Final = (*(rule for rule, _ in CHECKED), process_rules.SYNTAX)

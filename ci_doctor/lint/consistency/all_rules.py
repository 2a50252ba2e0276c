# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules over several files, and their checks."""

from collections.abc import Callable, Iterator

from ci_doctor.lint.consistency.repository import RepositoryFiles
from ci_doctor.lint.consistency.rules import (
    different_default,
    unaccepted_argument,
    unaccepted_value,
    unknown_enum_member,
    unread_variable,
)
from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.violation import Violation

_MODULES = (
    unaccepted_value,
    unaccepted_argument,
    unknown_enum_member,
    unread_variable,
    different_default,
)
RULES: tuple[LintRule, ...] = tuple(module.RULE for module in _MODULES)
CHECKS: tuple[Callable[[RepositoryFiles], Iterator[Violation]], ...] = tuple(
    module.check for module in _MODULES
)

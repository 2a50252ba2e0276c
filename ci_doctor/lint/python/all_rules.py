# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules about Python programs of a job, and their checks."""

from collections.abc import Callable, Iterator

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.python.rules import (
    append_in_retry,
    exit_bool,
    exit_zero,
    module_global,
    swallowed_decision,
    unchecked_subprocess,
    uncounted_request_error,
)
from ci_doctor.lint.violation import Violation

_MODULES = (
    swallowed_decision,
    exit_zero,
    exit_bool,
    uncounted_request_error,
    unchecked_subprocess,
    append_in_retry,
    module_global,
)
RULES: tuple[LintRule, ...] = tuple(module.RULE for module in _MODULES)
CHECKS: tuple[Callable[[PythonProgram], Iterator[Violation]], ...] = tuple(
    module.check for module in _MODULES
)

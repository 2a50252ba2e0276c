# SPDX-License-Identifier: Apache-2.0
"""Pure. All rules of shell scripts, and the checks of those that read the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.rules import (
    append_in_retry,
    broad_kill,
    carriage_return,
    count_defaults_to_zero,
    count_doubled,
    curl_without_fail,
    curl_without_time_limit,
    errexit_off,
    failure_lost,
    fixed_sleep,
    hard_coded_site_packages,
    stale_status,
    status_lost_in_declaration,
    status_lost_in_pipe,
    status_of_negation,
    success_unchecked,
    syntax,
    time_in_iterations,
    unchecked_wait,
    unreachable_handler,
    wait_falls_through,
    wait_without_process,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_doctor.lint.lint_rule import LintRule
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

_MODULES: Final = (
    append_in_retry,
    broad_kill,
    carriage_return,
    count_defaults_to_zero,
    count_doubled,
    curl_without_fail,
    curl_without_time_limit,
    errexit_off,
    failure_lost,
    fixed_sleep,
    hard_coded_site_packages,
    stale_status,
    status_lost_in_declaration,
    status_lost_in_pipe,
    status_of_negation,
    success_unchecked,
    time_in_iterations,
    unchecked_wait,
    unreachable_handler,
    wait_falls_through,
    wait_without_process,
)
RULES: Final[tuple[LintRule, ...]] = (*(each.RULE for each in _MODULES), syntax.RULE)
CHECKS: Final[tuple[Callable[[ShellProgram], Iterator[Violation]], ...]] = tuple(
    each.check for each in _MODULES
)

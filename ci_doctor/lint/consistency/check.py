# SPDX-License-Identifier: Apache-2.0
"""Pure. The files of a repository, and where they contradict each other."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ci_doctor.lint.consistency import choice_rules, variable_rules
from ci_doctor.lint.consistency.repository import RepositoryFiles
from ci_doctor.lint.lint_rule import LintRule, Violation

_CHECKED: Final[tuple[tuple[LintRule, Callable[[RepositoryFiles], Iterator[Violation]]], ...]] = (
    *variable_rules.RULES,
    *choice_rules.RULES,
)
RULES: Final = tuple(rule for rule, _ in _CHECKED)


def check_consistency(files: Mapping[str, str], *, whole: bool = True) -> tuple[Violation, ...]:
    """The violations, by file and line.

    files: texts by their names, relative to the repository: Python, shell, YAML, Dockerfiles, and
    the native sources that may read a variable. whole: whether these are all of them; if not, rules
    that need all say nothing. It raises for no text.
    """
    repository = RepositoryFiles(files, whole=whole)
    violations = [violation for _, check in _CHECKED for violation in check(repository)]
    violations.sort(key=lambda each: (each.place.file, each.place.line))
    return tuple(violations)

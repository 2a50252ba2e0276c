# SPDX-License-Identifier: Apache-2.0
"""Pure. The files of a repository, and where they contradict each other."""

from collections.abc import Mapping

from ci_doctor.lint.consistency.all_rules import CHECKS
from ci_doctor.lint.consistency.repository import RepositoryFiles
from ci_doctor.lint.violation import Violation


def check_consistency(files: Mapping[str, str], *, whole: bool = True) -> tuple[Violation, ...]:
    """The violations, by file and line.

    files: texts by their names, relative to the repository: Python, shell, YAML, Dockerfiles, and
    the native sources that may read a variable. whole: whether these are all of them; if not, rules
    that need all say nothing. It raises for no text.
    """
    repository = RepositoryFiles(files, whole=whole)
    violations = [violation for check in CHECKS for violation in check(repository)]
    violations.sort(key=lambda each: (each.place.file, each.place.line))
    return tuple(violations)

# SPDX-License-Identifier: Apache-2.0
"""Pure. What a rule of shell scripts says about a statement, and small scripts as its examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_doctor.lint.lint_rule import Example
from ci_doctor.lint.violation import Edit, Place, Violation

if TYPE_CHECKING:
    from ci_doctor.lint.lint_rule import LintRule
    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.model.finding import Severity


def script(text: str) -> tuple[Example, ...]:
    """An example of one script."""
    return (Example(file="run.sh", text="#!/bin/bash\n" + text),)


def violation(  # noqa: PLR0913 - the fields of Violation by their names
    program: ShellProgram,
    rule: LintRule,
    node: ShellNode,
    summary: str,
    *,
    remedy: str | None = None,
    severity: Severity | None = None,
    related: tuple[Place, ...] = (),
    edits: tuple[Edit, ...] = (),
) -> Violation:
    """`rule` reports `node`. The fields are those of Violation."""
    return Violation(
        rule=rule,
        place=program.place(node),
        summary=summary,
        excerpt=program.excerpt(node),
        remedy=remedy,
        severity=severity,
        related=related,
        edits=edits,
    )

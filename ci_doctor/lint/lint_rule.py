# SPDX-License-Identifier: Apache-2.0
"""Pure. A rule of lint: what it means, with examples on which it must and must not report."""

from msgspec import Struct

from ci_doctor.model.rule import Rule


class Example(Struct, frozen=True, kw_only=True):
    """A small file. `file` is its name in the repository, which decides who reads it."""

    file: str
    text: str


class LintRule(Struct, frozen=True, kw_only=True):
    """A rule with its examples: a test runs all of them, and `ci-doctor explain` prints the first of each.

    Each example is one file, or several files of one repository. A `good` one is the mended `bad`
    one, or what looks like it and is right.
    """

    rule: Rule
    bad: tuple[tuple[Example, ...], ...]
    good: tuple[tuple[Example, ...], ...]

    @property
    def id(self) -> str:
        """The rule's id, an anchor in docs/findings.md."""
        return self.rule.id

# SPDX-License-Identifier: Apache-2.0
"""Pure. One place in a file at which a rule of lint reports, and an edit that mends it."""

from msgspec import Struct

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.model.finding import Severity


class Place(Struct, frozen=True, kw_only=True):
    """Lines of a file. `file` is relative to the repository; lines are 1-based and inclusive."""

    file: str
    line: int
    end_line: int


class Edit(Struct, frozen=True, kw_only=True):
    """Replaces the characters of `file` from `start` to `end` (offsets in its decoded text) by `text`."""

    file: str
    start: int
    end: int
    text: str


class Violation(Struct, frozen=True, kw_only=True):
    """What a rule reports.

    summary: one sentence without a full stop, about this very case. excerpt: the line as it stands.
    remedy: what to write instead, in this very case. severity: replaces the rule's usual one.
    related: other places that make it true, such as the function whose status nobody reads; a change
    of one of them is a change that brought the violation up. edits: a safe repair; empty if there is none.
    """

    rule: LintRule
    place: Place
    summary: str
    excerpt: str
    remedy: str | None = None
    severity: Severity | None = None
    related: tuple[Place, ...] = ()
    edits: tuple[Edit, ...] = ()

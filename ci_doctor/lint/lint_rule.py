# SPDX-License-Identifier: Apache-2.0
"""Pure. A rule of lint with its examples, what it reports of a file, and the rules about lint itself."""

from typing import Final

from msgspec import Struct

from ci_doctor.model.outcome import Rule, Severity

LONGEST_EXCERPT: Final = 200
_MORE: Final = "…"


def excerpt_of(line: str, most: int = LONGEST_EXCERPT) -> str:
    """`line` without the spaces around it: its words up to `most` characters, then `…` for the rest."""
    text = line.strip()
    if len(text) <= most:
        return text
    end = most
    while end > 0 and not text[end].isspace():
        end -= 1
    return f"{text[:end].rstrip()} {_MORE}".lstrip()


def word_set(text: str) -> frozenset[str]:
    """The words of a table that is written as a text."""
    return frozenset(text.split())


# A rule of lint: what it means, with examples on which it must and must not report.


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


# One place in a file at which a rule of lint reports, and an edit that mends it.


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


# What lint could not read: it is counted and said, and never taken for clean.


class Unreadable(Struct, frozen=True, kw_only=True):
    """A file, or lines of it, that no rule has looked at.

    reason: one sentence without a full stop. is_partial: rules have looked at the rest of the file.
    is_reported: a rule reports the same at this line.
    """

    file: str
    line: int
    reason: str
    is_partial: bool = False
    is_reported: bool = False


# The rules of lint about lint itself; those of its readers stand beside these.


def _example(line: str) -> tuple[Example, ...]:
    """A script that ends with `line`."""
    return (Example(file="ci/run.sh", text=f"#!/usr/bin/env bash\nset -e\n{line}\n"),)


UNREADABLE = LintRule(
    rule=Rule(
        id="lint/unreadable",
        severity=Severity.WARNING,
        meaning="A file, or a part of it, could not be parsed, so no rule has looked at it. Its shell or its "
        "agent may refuse it, too.",
        remedy="Mend the syntax. A file that is meant to be like this belongs under `[[lint.paths]]` with "
        '`ignore = ["*"]`.',
    ),
    bad=((Example(file="ci/gate.py", text="import sys\n\nsys.exit(1\n"),),),
    good=((Example(file="ci/gate.py", text="import sys\n\nsys.exit(1)\n"),),),
)
IGNORE_WITHOUT_REASON = LintRule(
    rule=Rule(
        id="lint/ignore-without-reason",
        severity=Severity.WARNING,
        meaning="A comment silences a rule and gives no reason. It has no effect: the next reader cannot know "
        "whether it still holds.",
        remedy="Write the reason behind the bracket: `# ci-doctor: ignore[shell/broad-kill] the container has "
        "no other Python`.",
    ),
    bad=(_example("pytest tests  # ci-doctor: ignore[lint/unreadable]"),),
    good=(_example("pytest tests  # no comment to ci-doctor"),),
)
UNKNOWN_RULE = LintRule(
    rule=Rule(
        id="lint/unknown-rule",
        severity=Severity.WARNING,
        meaning="A comment names a rule that does not exist. It silences nothing.",
        remedy="`ci-doctor explain FAMILY` lists the rules of a family, as in `ci-doctor explain shell`.",
    ),
    bad=(_example("pytest tests  # ci-doctor: ignore[lint/unreadible] half a script"),),
    good=(_example("pytest tests"),),
)
UNUSED_IGNORE = LintRule(
    rule=Rule(
        id="lint/unused-ignore",
        severity=Severity.WARNING,
        meaning="A comment silences a rule that reports nothing there. It would hide the next mistake on that line.",
        remedy="Remove the comment, or the name of the rule in it.",
    ),
    bad=(_example("pytest tests  # ci-doctor: ignore[lint/unreadable] half a script"),),
    good=(_example("pytest tests"),),
)
STALE_BASELINE = Rule(
    id="lint/stale-baseline",
    severity=Severity.NOTE,
    meaning="The baseline file of lint lists places at which no rule reports any more. Somebody has mended them, "
    "or the line has changed.",
    remedy="`ci-doctor lint --write-baseline FILE` writes it again, without them.",
)

OWN_RULES: Final = (UNREADABLE, IGNORE_WITHOUT_REASON, UNKNOWN_RULE, UNUSED_IGNORE)

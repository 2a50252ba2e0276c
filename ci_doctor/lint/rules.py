# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of lint about lint itself; those of its readers stand beside these."""

from typing import Final

from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule


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
        remedy="`docs/lint-rules.md` lists the rules; `ci-doctor explain RULE` prints one.",
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
